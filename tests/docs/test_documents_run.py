"""No promise in the documentation that nothing runs."""

import re
from pathlib import Path

import pytest

from zephon_documents import blocks_of, check, commands_of, run

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "zephon_core/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
by_path = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@by_path
def test_every_block_has_a_language_valid_syntax_and_a_reason_if_it_is_not_run(document):
    for block in blocks_of(document):
        check(document, block)


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if any(b.language in ("python", "sh", "console") for b in blocks_of(path))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_examples_of_a_document_run_as_they_stand(document, tmp_path, monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    ran = run(document, tmp_path)
    assert ran or all("no-run" in block.attributes for block in blocks_of(document))


@by_path
def test_every_make_target_in_a_document_exists(document):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    used = set(re.findall(r"`make ([a-z]+)`", document.read_text()))
    for block in blocks_of(document):
        if block.language in ("sh", "console"):
            used |= {command.split()[1] for command, _ in commands_of(block) if command.startswith("make ")}
    assert used <= targets


def anchors_of(document):
    """Anchors of headings, as renderers of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@by_path
def test_every_link_within_the_repository_leads_somewhere(document):
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), target
        assert not anchor or anchor in anchors_of(found), target
