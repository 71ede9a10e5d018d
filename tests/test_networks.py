import subprocess
import sys

import pytest
import torch
from torch import nn

from evenstream.errors import InputError, UnknownName
from evenstream.networks import NETWORKS, build

FEATURES = {
    "mlp": 100,
    "mlp-norm": 100,
    "convnet": 128,
    "resnet18": 512,
    "slim-resnet18": 160,
    "resnet18-imagenet": 512,
    "resnet34": 512,
}
IMAGENET = ["resnet18-imagenet", "resnet34"]
IMAGES = [name for name in FEATURES if "mlp" not in name]


@pytest.fixture(autouse=True)
def seeded():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_registry_names_and_descriptions():
    assert set(NETWORKS) == {*FEATURES, "identity", "normalised", "normalised-mlp"}
    for info in NETWORKS.values():
        assert info.description and "\n" not in info.description


def test_listing_does_not_import_torch():
    code = (
        "import sys, evenstream.networks as n; list(n.NETWORKS); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "shape"),
    [(n, s) for n in FEATURES if n not in IMAGENET for s in ((3, 32, 32), (1, 28, 28), (5, 9, 17))]
    + [("resnet18-imagenet", (1, 33, 40)), ("resnet34", (3, 32, 32))],
)
def test_features(name, shape):
    network = build(name, shape)
    assert network.num_features == FEATURES[name]
    features = network(torch.randn(2, *shape))
    assert features.shape == (2, FEATURES[name])
    assert features.dtype == torch.float32
    assert features.isfinite().all()
    features.sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_identity_gives_the_inputs_as_vectors():
    x = torch.randn(2, 3, 4)
    network = build("identity", (3, 4))
    assert network.num_features == 12 and not list(network.parameters())
    assert torch.equal(network(x), x.flatten(1))


@pytest.mark.parametrize(
    ("name", "shape", "classes", "total"),
    [
        ("mlp", (1, 28, 28), 10, 784 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10),
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("slim-resnet18", (3, 32, 32), 10, 1_094_750),
        ("resnet18-imagenet", (3, 224, 224), 1000, 11_689_512),
        ("resnet34", (3, 224, 224), 1000, 21_797_672),
        ("convnet", (1, 8, 8), 0, 9 * (32 + 32 * 64 + 64 * 128) + 2 * (32 + 64 + 128)),
    ],
)
def test_number_of_weights_with_a_linear_head(name, shape, classes, total):
    network = build(name, shape)
    head = (network.num_features + 1) * classes
    assert weights(network) + head == total


def test_resnet_is_the_cifar_variant():
    network = build("resnet18", (3, 32, 32))
    assert not any(isinstance(m, nn.MaxPool2d | nn.AvgPool2d) for m in network.modules())
    stem = next(m for m in network.modules() if isinstance(m, nn.Conv2d))
    assert (stem.kernel_size, stem.stride, stem.bias) == ((3, 3), (1, 1), None)
    sizes = []
    for stage in ("layer1", "layer2", "layer3", "layer4"):
        network.get_submodule(stage).register_forward_hook(
            lambda _m, _i, out: sizes.append(tuple(out.shape[1:]))
        )
    network.eval()(torch.randn(1, 3, 32, 32))
    assert sizes == [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]


@pytest.mark.parametrize(("name", "blocks"), [("resnet18-imagenet", 8), ("resnet34", 16)])
def test_resnet_is_the_imagenet_variant(name, blocks):
    network = build(name, (3, 224, 224))
    stem = network.conv1
    assert (stem.kernel_size, stem.stride, stem.padding) == ((7, 7), (2, 2), (3, 3))
    assert (network.pool.kernel_size, network.pool.stride, network.pool.padding) == (3, 2, 1)
    assert sum(type(m).__name__ == "BasicBlock" for m in network.modules()) == blocks
    sizes = []
    for part in ("bn1", "pool", "layer1", "layer2", "layer3", "layer4"):
        network.get_submodule(part).register_forward_hook(
            lambda _m, _i, out: sizes.append((out.shape[1], out.shape[2]))
        )
    with torch.no_grad():
        network.eval()(torch.randn(1, 3, 224, 224))
    assert sizes == [(64, 112), (64, 56), (64, 56), (128, 28), (256, 14), (512, 7)]


def test_imagenet_resnets_start_like_those_of_torchvision():
    network = build("resnet18-imagenet", (3, 224, 224))
    for conv in (m for m in network.modules() if isinstance(m, nn.Conv2d)):
        expected = (2 / (conv.out_channels * conv.kernel_size[0] ** 2)) ** 0.5
        assert abs(conv.weight.std() / expected - 1) < 0.03
        assert abs(conv.weight.mean()) < 0.03 * expected


def test_small_resnets_keep_the_names_that_checkpoints_have():
    names = build("slim-resnet18", (3, 32, 32)).state_dict().keys()
    assert {"conv1.weight", "bn1.running_var", "layer2.0.shortcut.0.weight"} <= names
    assert len(names) == 20 + 20 * 5
    assert not any("pool" in name or "layer1.0.shortcut" in name for name in names)


def test_resnet_blocks_do_what_the_formula_says():
    block = build("slim-resnet18", (3, 16, 16)).eval().get_submodule("layer2.0")
    x = torch.randn(2, 20, 8, 8)
    out = block.bn2(block.conv2(block.bn1(block.conv1(x)).clamp(min=0)))
    expected = (out + block.shortcut[1](block.shortcut[0](x))).clamp(min=0)
    torch.testing.assert_close(block(x), expected)


def test_resnet_keeps_the_framework_initialisation():
    torch.manual_seed(3)
    stem = build("resnet18", (3, 32, 32)).conv1.weight
    torch.manual_seed(3)
    assert torch.equal(stem, nn.Conv2d(3, 64, 3, padding=1, bias=False).weight)


def test_mlp_initialisation_is_xavier_uniform_with_zero_biases():
    network = build("mlp", (1, 28, 28))
    linears = [m for m in network.modules() if isinstance(m, nn.Linear)]
    assert [m.in_features for m in linears] == [784, 100]
    for linear in linears:
        bound = (6 / (linear.in_features + linear.out_features)) ** 0.5
        assert linear.weight.abs().max() <= bound
        assert linear.weight.abs().max() > 0.99 * bound
        assert not linear.bias.any()
        assert abs(linear.weight.std() / (bound / 3**0.5) - 1) < 0.03


@pytest.mark.parametrize("shape", [(1,), (7,), (2, 5), (3, 4, 4), (1, 2, 2, 2)])
def test_mlp_takes_any_shape(shape):
    assert build("mlp", shape)(torch.randn(3, *shape)).shape == (3, 100)


def test_mlp_does_not_care_about_the_memory_format():
    network, x = build("mlp", (3, 4, 5)), torch.randn(6, 3, 4, 5)
    torch.testing.assert_close(network(x), network(x.contiguous(memory_format=torch.channels_last)))


@pytest.mark.parametrize("name", [name for name in FEATURES if name != "resnet34"])
def test_same_seed_same_network(name):
    def state(seed):
        torch.manual_seed(seed)
        return build(name, (3, 32, 32)).state_dict()

    first, again, other = state(1), state(1), state(2)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", IMAGES)
def test_channels_last_is_kept_to_the_end(name):
    network = build(name, (3, 32, 32)).to(memory_format=torch.channels_last)
    maps = []
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d):
            module.register_forward_hook(lambda _m, _i, out: maps.append(out))
    x = torch.randn(2, 3, 32, 32)
    network.eval()
    result = network(x.contiguous(memory_format=torch.channels_last))
    assert all(m.is_contiguous(memory_format=torch.channels_last) for m in maps)
    torch.testing.assert_close(result, network(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in IMAGES if name not in IMAGENET])
def test_the_smallest_image_trains_with_a_batch_of_one(name):
    side = NETWORKS[name].min_side
    network = build(name, (1, side, side)).train()
    assert network(torch.randn(1, 1, side, side)).isfinite().all()


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("shape", [(), (3,), (32, 32), (3, 32, 4), (3, 7, 32), (2, 3, 32, 32)])
def test_shapes_that_do_not_fit(name, shape):
    with pytest.raises(InputError, match=r"channels, height, width.*at least \d+x\d+") as caught:
        build(name, shape)
    assert name in str(caught.value) and str(shape) in str(caught.value)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 4), (-1, 4)])
def test_empty_shapes_do_not_fit_anything(shape):
    for name in NETWORKS:
        with pytest.raises(InputError, match="takes"):
            build(name, shape)


def test_unknown_network():
    with pytest.raises(UnknownName, match="did you mean resnet18"):
        build("resnet-18", (3, 32, 32))
    with pytest.raises(UnknownName, match=r"known: convnet, identity, mlp, mlp-norm, normalised, "):
        build("???", (3, 32, 32))
