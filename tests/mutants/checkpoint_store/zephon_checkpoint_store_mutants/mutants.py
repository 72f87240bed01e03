"""One fault each. Every class is the toy it derives from but for what is wrong with it."""

import contextlib
import json
import os
import shutil
import threading
import time
from pathlib import Path

from zephon.errors import CheckpointError
from zephon_checkpoint_store_mutants.toys import Maximal, Minimal, failure

#: Name of the mutant -> the clause that must find it.
MUTANTS = {}


def killed_by(clause):
    def note(cls):
        MUTANTS["".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")] = clause
        return cls

    return note


@killed_by("CS-1")
class GivesText(Minimal):
    """The header comes back as text."""

    def load(self, step):
        state = super().load(step)
        return {**state, "header": state["header"].decode()}


@killed_by("CS-1")
class EndsAtAZero(Minimal):
    """Bytes are taken for a C string."""

    def load(self, step):
        state = super().load(step)
        return {**state, "lanes": {key: data.partition(b"\0\0\0\0\0\0")[0] for key, data in state["lanes"].items()}}


@killed_by("CS-2")
class KeepsOneRank(Minimal):
    """Every rank begins the step anew."""

    def save(self, step, state):
        self.delete(step)
        super().save(step, state)


@killed_by("CS-2")
class HasALeader(Minimal):
    """The rank with the first lane makes the folder; who comes before it is ignored."""

    def save(self, step, state):
        if "00000" in state["lanes"] or self.folder(step).exists():
            super().save(step, state)


@killed_by("CS-3")
class ListsWhatWasBegun(Minimal):
    """Every step with a lane is in the list."""

    def is_complete(self, step):
        return bool(self.found(step))


@killed_by("CS-3")
class LoadsWhatThereIs(Minimal):
    """Lanes that are missing are not missed."""

    def load(self, step):
        try:
            return super().load(step)
        except CheckpointError as error:
            if error.code != "checkpoint-incomplete":
                raise
            found = self.found(step)
            [header] = {header for header, _ in found.values()}
            return {"header": header, "lanes": {key: data for key, (_, data) in found.items()}}


@killed_by("CS-3")
class NamesNoLanes(Minimal):
    """Says that lanes are missing, not which."""

    def load(self, step):
        try:
            return super().load(step)
        except CheckpointError as error:
            if error.code == "checkpoint-incomplete":
                raise failure("incomplete", error.code, "lanes are missing") from None
            raise


@killed_by("CS-4")
class MissingIsEmpty(Minimal):
    """A step nobody saved has no lanes."""

    def load(self, step):
        return super().load(step) if self.found(step) else {"header": b"", "lanes": {}}


@killed_by("CS-4")
class MakesItsFolder(Minimal):
    """A store makes its folder before there is anything to save."""

    def steps(self):
        self.root.mkdir(parents=True, exist_ok=True)
        return super().steps()


@killed_by("CS-5")
class SortsTexts(Minimal):
    """Steps are in the order of their names."""

    def steps(self):
        return sorted(super().steps(), key=str)


@killed_by("CS-5")
class HasTwelveDigits(Minimal):
    """Larger steps are not found again."""

    def begun(self):
        return [step for step in super().begun() if step < 10**12]


@killed_by("CS-6")
class KeepsTheFirst(Minimal):
    """A lane that is there is not written again."""

    def put(self, path, content):
        if not path.exists():
            super().put(path, content)


@killed_by("CS-6")
class BelievesTheNewerRun(Minimal):
    """Saving one rank again throws the others away."""

    def save(self, step, state):
        if any((self.folder(step) / key).exists() for key in state["lanes"]):
            self.delete(step)
        super().save(step, state)


@killed_by("CS-7")
class DeletesByPrefix(Minimal):
    """Step 1 takes step 10 along."""

    def delete(self, step):
        for folder in self.root.glob(f"{step}*"):
            shutil.rmtree(folder, ignore_errors=True)


@killed_by("CS-7")
class DeletesWhatCounts(Minimal):
    """Steps that are incomplete stay."""

    def delete(self, step):
        if self.is_complete(step):
            super().delete(step)


@killed_by("CS-7")
class MissesWhatItDeletes(Minimal):
    """An unknown step cannot be deleted."""

    def delete(self, step):
        shutil.rmtree(self.folder(step))


@killed_by("CS-8")
class RemembersSteps(Minimal):
    """Looks once, then counts what it saves itself."""

    def __init__(self, url):
        super().__init__(url)
        self.known = None

    def save(self, step, state):
        super().save(step, state)
        self.known = None

    def delete(self, step):
        super().delete(step)
        self.known = None

    def steps(self):
        self.known = super().steps() if self.known is None else self.known
        return list(self.known)


@killed_by("CS-8")
class RemembersStates(Minimal):
    """What was loaded once is not read again."""

    def __init__(self, url):
        super().__init__(url)
        self.loaded = {}

    def save(self, step, state):
        self.loaded.pop(step, None)
        super().save(step, state)

    def delete(self, step):
        self.loaded.pop(step, None)
        super().delete(step)

    def load(self, step):
        if step not in self.loaded:
            self.loaded[step] = super().load(step)
        return {**self.loaded[step], "lanes": dict(self.loaded[step]["lanes"])}


@killed_by("CS-9")
class MixesMoments(Minimal):
    """One header is as good as another."""

    def found(self, step):
        found = super().found(step)
        return {key: (found[min(found)][0], data) for key, (_, data) in found.items()}


@killed_by("CS-10")
class KeepsAList(Minimal):
    """What lanes there are is read from a list, which every saver reads, changes and writes back."""

    def save(self, step, state):
        super().save(step, state)
        listed = self.listed(step)
        time.sleep(0.001)
        content = json.dumps(sorted({*listed, *state["lanes"]})).encode()
        Minimal.put(self, self.folder(step) / ".list", content)

    def listed(self, step):
        try:
            return json.loads((self.folder(step) / ".list").read_bytes())
        except FileNotFoundError:
            return []

    def found(self, step):
        listed = self.listed(step)
        return {key: found for key, found in super().found(step).items() if key in listed}


@killed_by("CS-10")
class HasOneTemporaryFile(Minimal):
    """All savers of a step write to a file of one name."""

    def put(self, path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(".part")
        temporary.write_bytes(content)
        time.sleep(0.001)
        os.replace(temporary, path)


@killed_by("CS-11")
class WritesInPlace(Minimal):
    """A lane is emptied, then filled."""

    def put(self, path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            for start in range(0, len(content), 512):
                file.write(content[start : start + 512])
                file.flush()


@killed_by("CS-11")
class RemovesFirst(Minimal):
    """The old lane is gone before the new one is there."""

    def put(self, path, content):
        path.unlink(missing_ok=True)
        time.sleep(0.001)
        super().put(path, content)


@killed_by("CS-12")
class LeavesALock(Minimal):
    """Savers of a step wait for each other, and for those who will never be done."""

    def save(self, step, state):
        self.folder(step).mkdir(parents=True, exist_ok=True)
        lock = self.folder(step) / ".lock"
        deadline = time.monotonic() + 1
        while True:
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.0001)
        try:
            super().save(step, state)
        finally:
            lock.unlink()


@killed_by("CS-13")
class SwallowsFailures(Minimal):
    """A save that fails looks like one that does not."""

    def save(self, step, state):
        with contextlib.suppress(TypeError):
            super().save(step, state)


@killed_by("CS-13")
class EmptiesFirst(Minimal):
    """Makes room before it looks at what is to be saved."""

    def save(self, step, state):
        for key in state["lanes"]:
            (self.folder(step) / key).unlink(missing_ok=True)
        super().save(step, state)


@killed_by("CS-14")
class ForgetsTheSlash(Minimal):
    """The name of a step is put right behind that of the folder."""

    def folder(self, step):
        return self.root.with_name(f"{self.root.name}-{step}")

    def begun(self):
        folders = self.root.parent.glob(f"{self.root.name}-*")
        return [int(folder.name.rpartition("-")[2]) for folder in folders]

    def found(self, step):
        for folder in self.root.parent.glob(f"{self.root.name}*-{step}"):
            return {path.name: self.get(path) for path in Path(folder).iterdir() if not path.name.startswith(".")}
        return {}


@killed_by("CS-15")
class TakesLanesAway(Minimal):
    """What is saved is removed from the state."""

    def save(self, step, state):
        while state["lanes"]:
            key, data = state["lanes"].popitem()
            super().save(step, {"header": state["header"], "lanes": {key: data}})


@killed_by("CS-15")
class GivesOutItsOwn(RemembersStates):
    """All who load a step get one object."""

    def load(self, step):
        super().load(step)
        return self.loaded[step]


@killed_by("CS-16")
class ShowsItsOptions(Maximal):
    """The repr is that of a data class."""

    def __init__(self, url, **options):
        super().__init__(url)
        self.options = options

    def __repr__(self):
        return f"Store({self.root}, {self.options})"


@killed_by("CS-16")
class QuotesUrls(Minimal):
    """A place that is refused is quoted, password and all."""

    def __init__(self, url):
        if not url.startswith("toy:///"):
            raise failure(f"no place: {url}", "toy-location")
        super().__init__(url)


@killed_by("CS-17")
class LeavesThreads(Minimal):
    """Every store has a thread, which nobody ends."""

    def __init__(self, url):
        super().__init__(url)
        threading.Thread(target=threading.Event().wait, args=(30,), daemon=True).start()


@killed_by("CS-18")
class KeepsTheLastThree(Minimal):
    """Earlier steps make room for later ones, though nobody asked for it."""

    def save(self, step, state):
        super().save(step, state)
        for old in self.steps()[:-3]:
            self.delete(old)
