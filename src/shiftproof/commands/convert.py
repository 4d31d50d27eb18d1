"""`shiftproof convert`: rebuild a network, print the report, write it to a file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from shiftproof import checks
from shiftproof.commands.shared import wide_console

HELP = "Make a network shift-proof: print what was replaced, write it to a file."
EXAMPLES = (
    "timm:resnet18 --pretrained -o model.pt2",
    "cifar:resnet20 --pretrained --placement before",
    "mynet:make --weights w.safetensors --size 64 -o model.onnx",
)
# how this command spells the arguments that the converter's errors name
_WORDS = {
    "`strict=False`": "`--loose`",
    "`padding=None`": "`--padding keep`",
    "`padding='circular'`": "`--padding circular`",
    "`example`": "`--size`",
    "`subpixel=True`": "`--subpixel`",
    "`front=True`": "`--front`",
    "`front=False`": "`--no-front`",
    "`method='align'`": "`--method align`",
    "`placement='before'`": "`--placement before`",
    "`placement='after'`": "`--placement after`",
    "`antialias=True`": "`--antialias`",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("source", metavar="SOURCE", help="module:factory of the network, timm:NAME or cifar:NAME")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="a state_dict or checkpoint: .safetensors, .pt, .th"
    )
    parser.add_argument("--pretrained", action="store_true", help="published weights, of timm and cifar")
    parser.add_argument("--method", default="ghs", help="the downsampling method, by name")
    parser.add_argument(
        "--padding", default="circular", help="circular, reflect, replicate or zeros; keep leaves it as it is"
    )
    parser.add_argument(
        "--placement", default="after", help="of the method: after the operations with a stride, or before them"
    )
    parser.add_argument("--antialias", action="store_true", help="placed before, filter the maps too")
    parser.add_argument("--size", type=int, nargs="+", metavar="PIXELS", help="of the inputs: one number, or two")
    parser.add_argument("--loose", action="store_true", help="convert what can be converted and list the rest")
    parser.add_argument(
        "--front",
        action=argparse.BooleanOptionalAction,
        help="roll the input to its pivot first, for equal bits; default: where the network is exactly invariant",
    )
    parser.add_argument("--subpixel", action="store_true", help="the front takes out parts of a pixel too")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="model.pt2 or model.onnx")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from shiftproof.conversion import ConversionError, conversion_report, convert
    from shiftproof.conversion.converter import PLACEMENTS
    from shiftproof.conversion.error import reworded
    from shiftproof.conversion.example import input_layout, random_inputs
    from shiftproof.layers import methods
    from shiftproof.maps.padding import BORDERS
    from shiftproof.models.export import FORMATS, save_model
    from shiftproof.models.loading import describe_weights, input_settings, load_model

    method = checks.choice("--method", options.method, methods())
    padding = checks.choice("--padding", options.padding, (*BORDERS, "keep"))
    placement = checks.choice("--placement", options.placement, PLACEMENTS)
    out: Path | None = options.out
    if out is not None and out.suffix not in FORMATS:
        raise ValueError(f"`--out` (={out}) must end in {' or '.join(FORMATS)}.")
    model = load_model(options.source, options.weights, pretrained=options.pretrained)
    which = describe_weights(options.source, options.weights, options.pretrained)
    example = None
    if options.size is None and (known := input_settings(model).get("input_size")):
        example = random_inputs(model, known[1:])
    elif options.size is not None:
        size = options.size[0] if len(options.size) == 1 else options.size
        example = random_inputs(model, checks.per_axis("--size", size, input_layout(model)[1]))
    try:
        new = convert(
            model,
            method,
            None if padding == "keep" else padding,
            placement=placement,
            antialias=options.antialias,
            example=example,
            strict=not options.loose,
            front=options.front,
            subpixel=options.subpixel,
        )
    except ConversionError as error:
        raise error.reworded(_WORDS) from error
    except ValueError as error:  # options that do not fit each other
        raise ValueError(reworded(str(error), _WORDS)) from error
    report = conversion_report(new)
    sizes = report.example[2:]
    if out is not None:
        save_model(new, random_inputs(model, sizes), out)
    if options.json:
        about = {"source": options.source, "weights": which, "file": None if out is None else str(out)}
        print(json.dumps(report.to_dict() | about, indent=2))
        return 0
    try:
        wide_console().print(report.table())
    except ModuleNotFoundError:  # without rich
        print(report)
    print(f"Weights: {which}.")
    if out is not None:
        print(f"wrote {out}, for inputs of size {' x '.join(map(str, sizes))}")
    return 0
