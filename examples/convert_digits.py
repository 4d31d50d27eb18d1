"""Convert a trained network: accuracy and consistency before, after, and after a short fine-tuning.

The digits are those of scikit-learn on a black background of 16 x 16 pixels. To measure consistency they are shifted.
"""

import argparse
import copy

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import shiftproof as sp


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test images (N, 1, 16, 16) with their labels."""
    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    x = nn.functional.pad(x, (4, 4, 4, 4))
    y = torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[:1400], order[1400:]
    return x[train], y[train], x[test], y[test]


def network() -> nn.Module:
    """A plain convolutional network: strides, max pooling, zero padding."""

    def stage(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*stage(1, 16, 1), nn.MaxPool2d(2), *stage(16, 32, 2), *stage(32, 64, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def train(model: nn.Module, x: Tensor, y: Tensor, epochs: int, rate: float) -> None:
    """Stochastic gradient descent with a one-cycle learning rate."""
    steps = epochs * (len(x) // 100)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for step in range(steps):
        i = torch.randint(0, len(x), (100,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[i]), y[i]).backward()
        optimizer.step()
        schedule.step()
    model.eval()


def main(epochs: int = 8, fine_tuning: int = 8) -> dict[str, tuple[float, float]]:
    """Train, convert and fine-tune. Print a line after each, and return {stage: (accuracy, consistency)}."""
    torch.manual_seed(0)
    x, y, held_out, answers = digits()
    results = {}

    def evaluate(stage: str, model: nn.Module) -> None:
        with torch.no_grad():
            accuracy = float((model(held_out).argmax(1) == answers).float().mean())
        pairs = sp.consistency(model, held_out[:100], shifts=64).pairs
        results[stage] = accuracy, pairs
        print(f"{stage:>18}: accuracy {accuracy:6.1%}, two random shifts agree {pairs:6.1%}", flush=True)

    model = network()
    train(model, x, y, epochs, rate=0.2)
    evaluate("before", model)
    new = sp.convert(model, "ghs", example=held_out[:2])
    evaluate("converted", new)
    tuned = copy.deepcopy(new)
    train(tuned, x, y, fine_tuning, rate=0.1)
    evaluate("fine-tuned", tuned)
    print(sp.conversion_report(new))
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8, help="epochs of training before the conversion")
    parser.add_argument("--fine-tuning", type=int, default=8, help="epochs of fine-tuning after it")
    options = parser.parse_args()
    main(options.epochs, options.fine_tuning)
