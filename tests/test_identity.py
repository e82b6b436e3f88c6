"""Networks told from their variables: the table against the factory, and every published layout."""

import importlib.util
import pathlib

import oracle
import pytest
from made_checkpoints import contents, network_shapes

from nets.nets_factory import NETWORKS
from slim_mp.checkpoints.identity import AVERAGE, identify, identify_checkpoint
from slim_mp.checkpoints.scopes import match_scopes
from slim_mp.checkpoints.signatures import ANY_SIZE, get_signature, signatures
from slim_mp.compat import tf
from slim_mp.errors import UsageError

ROOT = pathlib.Path(__file__).parent.parent
MOBILENET = ROOT / "checkpoints" / "mobilenet_v1_1.0_224"
HEAD_SCOPES = {
    "lenet": ["LeNet/fc4"],
    "cifarnet": ["CifarNet/logits"],
    "vgg_16": ["vgg_16/fc8"],
    "overfeat": ["overfeat/fc8"],
    "inception_v1": ["InceptionV1/Logits"],
    "inception_v3": ["InceptionV3/AuxLogits", "InceptionV3/Logits"],
    "inception_v4": ["InceptionV4/AuxLogits", "InceptionV4/Logits"],
    "inception_resnet_v2": ["InceptionResnetV2/AuxLogits", "InceptionResnetV2/Logits"],
    "resnet_v1_50": ["resnet_v1_50/logits"],
    "resnet_v2_200": ["resnet_v2_200/logits"],
    "mobilenet_v1_050": ["MobilenetV1/Logits"],
    "mobilenet_v3_small": ["MobilenetV3/Logits"],
    "nasnet_mobile": ["aux_7/aux_logits", "final_layer/FC"],
    "pnasnet_large": ["aux_7/aux_logits", "final_layer/FC"],
}


def make_signatures():
    path = ROOT / "scripts" / "make_signatures.py"
    spec = importlib.util.spec_from_file_location("make_signatures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_every_network_of_the_factory():
    assert list(signatures()) == list(NETWORKS)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_table_has_the_published_variables(name):
    manifest, signature = oracle.manifest(name), get_signature(name)
    specs = signature.specs(manifest["num_classes"], is_training=True)
    assert list(specs) == list(manifest["variables"])
    for variable, shape in manifest["variables"].items():
        assert specs[variable].shape.is_compatible_with(shape), variable
    assert sorted(signature.train_only) == sorted(manifest["eval_missing_variables"])
    open_sizes = [v for v, shape in signature.variables.items() if ANY_SIZE in shape]
    assert len(open_sizes) <= 1, "sizes left open say nothing about the network"


@pytest.mark.parametrize("name", ["lenet", "cifarnet", "mobilenet_v1_025"])
def test_the_script_makes_what_is_in_the_table(name):
    row = make_signatures().signature(name)
    variables = {key: list(shape) for key, shape in get_signature(name).variables.items()}
    assert row == {"variables": variables, "train_only": sorted(get_signature(name).train_only)}


@pytest.mark.parametrize("name", HEAD_SCOPES)
def test_heads_are_excluded_as_the_published_recipes_do(name):
    assert get_signature(name).head_scopes == HEAD_SCOPES[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_published_layout_is_told_from_all_others(name):
    shapes = network_shapes(name)
    published = identify(contents(shapes))
    assert published.networks == (name,)
    assert published.num_classes == oracle.manifest(name)["num_classes"]
    assert published.dtypes == {"float32": len(shapes)}
    assert not (published.averages or published.slots or published.loss_scale)

    assert identify(contents(network_shapes(name, 5))).num_classes == 5
    heads = match_scopes(shapes, get_signature(name).head_scopes)
    features = identify(contents({key: s for key, s in shapes.items() if key not in heads}))
    assert (features.networks, features.num_classes) == ((name,), None)
    averages = identify(contents({key + AVERAGE: shape for key, shape in shapes.items()}))
    assert (averages.networks, averages.averages) == ((name,), len(shapes))
    evaluated = [key for key in shapes if key not in get_signature(name).train_only]
    assert identify(contents({key: shapes[key] for key in evaluated})).networks == (name,)


@pytest.mark.parametrize("name", ["lenet", "mobilenet_v1_075", "nasnet_cifar"])
def test_a_network_with_a_variable_less_or_wider_is_not_taken_for_it(name):
    shapes = network_shapes(name)
    layer = get_signature(name).body[0]
    for other in (None, [*shapes[layer][:-1], shapes[layer][-1] + 1]):
        changed = {key: shape for key, shape in shapes.items() if key != layer}
        if other:
            changed[layer] = other
        identity = identify(contents(changed))
        assert identity.networks == ()
        assert identity.nearest[0] == name
        assert identity.nearest[2] - identity.nearest[1] == 1
        assert (
            f"none of ours whole; it has {identity.nearest[1]} of the"
            in identity.describe_network()
        )


def test_a_foreign_checkpoint_is_none_of_ours():
    identity = identify(contents({"dense/kernel": [3, 4], "dense/bias": [4]}))
    assert (identity.networks, identity.num_classes, identity.nearest) == ((), None, None)
    assert identity.describe_network() == "none of ours"
    assert identity.dtypes == {"float32": 2}


def test_a_training_state_is_told_apart_from_the_network():
    shapes = network_shapes("lenet")
    for name in list(shapes):
        shapes |= {f"{name}/{slot}": shapes[name] for slot in ("RMSProp", "RMSProp_1")}
        shapes[name + AVERAGE] = shapes[name]
    shapes |= {"loss_scale/scale": [], "global_step": [], "beta1_power": []}
    identity = identify(contents(shapes, tf.float16))
    assert identity.networks == ("lenet",)
    assert identity.slots == {"RMSProp": 8, "RMSProp_1": 8}
    assert identity.averages == 8
    assert identity.loss_scale == ("loss_scale/scale",)
    assert identity.dtypes == {"float16": 16}


def test_the_weights_that_come_with_the_project():
    identity = identify_checkpoint(str(MOBILENET))
    assert identity.networks == ("mobilenet_v1",)
    assert identity.num_classes == 1001
    assert identity.dtypes == {"float32": 137}
    assert identity.step is None


def test_an_unknown_network_has_no_signature():
    with pytest.raises(UsageError, match=r"no network 'resnet_50'.*resnet_v1_50"):
        get_signature("resnet_50")
