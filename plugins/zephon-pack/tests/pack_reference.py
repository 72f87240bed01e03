"""The packing algorithms again: slow, token by token or over plain lists, and plain to see.

A document is its key and its length; a row is a list of pieces ``(document, start, length)``.
"""


def overflow_pieces(lengths, limit, policy):
    """``(document, start, length)`` of what the policy makes of documents, empty ones left out."""
    pieces = []
    for document, length in enumerate(lengths):
        if length <= limit or policy == "none":
            if length:
                pieces.append((document, 0, length))
        elif policy == "truncate":
            pieces.append((document, 0, limit))
        elif policy == "split":
            for start in range(0, length, limit):
                pieces.append((document, start, min(limit, length - start)))
    return pieces


def wrap(keys, lengths, limit):
    """Every token in turn goes into the open row of its key; a full row leaves."""
    open_rows, rows = {}, []
    for document, length in enumerate(lengths):
        for token in range(length):
            row = open_rows.setdefault(keys[document], [])
            if row and row[-1][0] == document:
                _, start, count = row[-1]
                row[-1] = (document, start, count + 1)
            else:
                row.append((document, token, 1))
            if sum(count for _, _, count in row) == limit:
                rows.append(open_rows.pop(keys[document]))
    return rows + list(open_rows.values())  # dicts keep the order of opening


class _Bin:
    def __init__(self, key, limit):
        self.key, self.room, self.pieces = key, limit, []

    def add(self, piece):
        self.pieces.append(piece)
        self.room -= piece[2]


def bounded(keys, lengths, limit, num_bins, policy, *, best, wrapping=False):
    """Bounded-space first fit or best fit; the fullest bin is closed, after being filled up if ``wrapping``."""
    bins, rows = [], []  # bins in order of opening; min() takes the first of equals: the oldest

    def close(one):
        bins.remove(one)
        rows.append(one.pieces)

    def place(piece):
        document, start, length = piece
        if length == limit:
            rows.append([piece])
            return
        mine = [b for b in bins if b.key == keys[document]]
        fitting = [b for b in mine if b.room >= length]
        if fitting:
            chosen = min(fitting, key=lambda b: b.room) if best else fitting[0]
            chosen.add(piece)
            if chosen.room == 0:
                close(chosen)
            return
        if len(mine) == num_bins:
            fullest = min(mine, key=lambda b: b.room)
            if wrapping:
                part = fullest.room
                fullest.add((document, start, part))
                close(fullest)
                place((document, start + part, length - part))
                return
            close(fullest)
        opened = _Bin(keys[document], limit)
        opened.add(piece)
        bins.append(opened)

    for piece in overflow_pieces(lengths, limit, policy):
        place(piece)
    return rows + [b.pieces for b in bins]


def pack(algorithm, keys, lengths, limit, num_bins, policy="split"):
    """Rows of pieces, by name of the algorithm."""
    if algorithm == "wrap":
        return wrap(keys, lengths, limit)
    return bounded(
        keys,
        lengths,
        limit,
        num_bins,
        policy,
        best=algorithm != "first_fit",
        wrapping=algorithm == "best_fit_wrap",
    )
