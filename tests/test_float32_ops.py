import fakes
import numpy as np
import pytest

import slim_mp
from slim_mp.compat import slim, tf
from slim_mp.float32_ops import REDUCTIONS, SLOW_ON_CPU, float32_ops

MANY = np.full((1, 7, 7, 2), 2000.0)
REDUCING = {
    "mean": lambda x: tf.reduce_mean(x, [1, 2]),
    "average pooling": lambda x: slim.avg_pool2d(x, 7),
    "sum": lambda x: tf.reduce_sum(x / 2000, [1, 2]),
    "local response normalization": lambda x: tf.nn.lrn(x, 4, bias=1.0, alpha=0.001 / 9, beta=0.75),
    "lrn of the v2 API": lambda x: tf.compat.v2.nn.local_response_normalization(x, 4),
    "softmax": lambda x: tf.nn.softmax(x - 1990),
    "log softmax": lambda x: tf.nn.log_softmax(x),
    "slim softmax": lambda x: slim.softmax(x),
}


def value_and_gradient(function, values, dtype):
    with fakes.fresh_graph(), tf.Session() as session:
        x = tf.constant(values, dtype)
        with slim_mp.arg_scope(dtype):
            y = function(x)
        (gradient,) = tf.gradients(y, x, tf.ones_like(y) * tf.cast(0.5, dtype))
        assert y.dtype == gradient.dtype == dtype
        return [value.astype(np.float32) for value in session.run([y, gradient])]


@pytest.mark.parametrize("name", REDUCING)
def test_reductions_neither_overflow_nor_miss_a_kernel(name):
    values = MANY - np.arange(2) * 8
    expected = value_and_gradient(REDUCING[name], values, tf.float32)
    for dtype in fakes.HALVES:
        for a, e in zip(value_and_gradient(REDUCING[name], values, dtype), expected, strict=True):
            assert np.isfinite(a).all()
            np.testing.assert_allclose(a, e, rtol=fakes.TOLERANCE[dtype], atol=1e-3)


def test_without_the_scope_the_mean_overflows():
    with fakes.fresh_graph(), tf.Session() as session:
        assert session.run(tf.reduce_mean(tf.constant(MANY, tf.float16))) == np.inf


def test_the_functions_of_tensorflow_are_put_back():
    before = [home.lrn for home in (tf.nn, tf.compat.v2.nn)]
    with fakes.fresh_graph(), pytest.raises(KeyError), slim_mp.arg_scope(tf.float16):
        raise KeyError
    assert [home.lrn for home in (tf.nn, tf.compat.v2.nn)] == before
    assert tf.nn.local_response_normalization is tf.nn.lrn


def conv(x, filters=4):
    kernel = tf.get_variable("kernel", [3, 3, 4, filters], x.dtype)
    return tf.nn.conv2d(x, kernel, 1, "SAME")


def test_values_are_rounded_between_operations():
    """Whoever reads a convolution reads its half value, gradients included."""
    for dtype in fakes.HALVES:
        with fakes.fresh_graph() as graph, tf.Session() as session:
            x = fakes.inputs(dtype)
            with slim_mp.arg_scope(dtype, float32_kernels=True):
                y = conv(x)
                z = tf.nn.relu(y)
            (gradient,) = tf.gradients(z, x)
            convolutions = [op for op in graph.get_operations() if op.type.startswith("Conv2D")]
            used = [op for op in convolutions if any(out.consumers() for out in op.outputs)]
            assert {op.type for op in used} == {"Conv2D", "Conv2DBackpropInput"}
            for op in used:
                assert op.outputs[0].dtype == tf.float32
                readers = op.outputs[0].consumers()
                assert [reader.type for reader in readers] == ["Cast"] * len(readers)
                assert {reader.outputs[0].dtype for reader in readers} == {dtype}
            assert y.dtype == z.dtype == gradient.dtype == dtype
            session.run(tf.global_variables_initializer())
            exact = session.run(graph.get_tensor_by_name(used[0].name + ":0"))
            np.testing.assert_array_equal(session.run(y), exact.astype(dtype.as_numpy_dtype))


def graph_of(dtype, float32_kernels):
    graph = tf.Graph()
    with graph.as_default():
        with slim.arg_scope(fakes.tiny_arg_scope(1e-3)), slim_mp.arg_scope(dtype, float32_kernels):
            y = fakes.tiny_network(fakes.inputs(dtype))
        gradients = tf.gradients(fakes.scalar(y), tf.trainable_variables())
    return graph, y, gradients


def test_kernels_change_no_variable_and_no_checkpoint(tmp_path):
    for dtype in fakes.HALVES:
        outputs = []
        for float32_kernels in (False, True):
            graph, y, gradients = graph_of(dtype, float32_kernels)
            with graph.as_default(), tf.Session() as session:
                saver = tf.train.Saver()
                path = str(tmp_path / dtype.name)
                if float32_kernels:
                    saver.restore(session, path)
                else:
                    fakes.set_variables(session)
                    saver.save(session, path)
                values = session.run([y, *gradients])
                outputs.append((fakes.variable_signatures(), y.op.name.split("/")[0], values))
        (variables, name, half), (wide_variables, wide_name, wide) = outputs
        assert wide_variables == variables
        assert wide_name == name
        for a, e in zip(wide, half, strict=True):
            fakes.assert_close(
                a.astype(np.float32), e.astype(np.float32), 4 * fakes.TOLERANCE[dtype]
            )


def multiply_add(x):
    weights = tf.ones([4, 4], x.dtype) * 0.3
    return tf.linalg.matmul(tf.reshape(x, [-1, 4]), weights)


def in_cond(x):
    return tf.cond(
        tf.reduce_sum(tf.cast(x, tf.float32)) < 1e9, lambda: multiply_add(x), lambda: x[0, 0]
    )


def in_while_loop(x):
    x = tf.reshape(x, [-1, 4])
    return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, multiply_add(y)), (0, x))[1]


def in_function(x):
    return tf.function(multiply_add)(x)


def in_map(x):
    return tf.map_fn(multiply_add, x)


@pytest.fixture(params=[False, True], ids=["control flow v1", "control flow v2"])
def control_flow(request):
    if request.param:
        tf.enable_control_flow_v2()
    yield
    tf.disable_control_flow_v2()


@pytest.mark.parametrize("build", [in_cond, in_while_loop, in_function, in_map])
def test_control_flow(control_flow, build):
    del control_flow
    values = {}
    for dtype in (tf.float32, *fakes.HALVES):
        with fakes.fresh_graph(), tf.Session() as session:
            x = fakes.inputs(dtype)
            with slim_mp.arg_scope(dtype, float32_kernels=True):
                y = build(x)
                (gradient,) = tf.gradients(y, x)
            assert y.dtype == gradient.dtype == dtype
            values[dtype] = [value.astype(np.float32) for value in session.run([y, gradient])]
    for dtype in fakes.HALVES:
        for a, e in zip(values[dtype], values[tf.float32], strict=True):
            fakes.assert_close(a, e, 4 * fakes.TOLERANCE[dtype])


def test_a_function_made_in_the_scope_computes_in_float32():
    with fakes.fresh_graph(), float32_ops({"MatMul"}):
        function = tf.function(multiply_add).get_concrete_function(
            tf.TensorSpec([4, 4], tf.float16)
        )
        types = {
            op.type: op.outputs[0].dtype for op in function.graph.get_operations() if op.outputs
        }
        assert types["Cast"]


def test_only_half_operations_of_the_set_are_replaced():
    with fakes.fresh_graph() as graph:
        with float32_ops({"MatMul"}):
            x = tf.ones([2, 2], tf.float16)
            assert tf.linalg.matmul(x, x).op.type == "Cast"
            assert tf.nn.softmax(x).op.type == "Softmax"
            for other in (tf.float32, tf.float64, tf.int32):
                assert tf.linalg.matmul(tf.cast(x, other), tf.cast(x, other)).op.type == "MatMul"
        assert tf.linalg.matmul(x, x).op.type == "MatMul"
        widened = [op for op in graph.get_operations() if "/float32/" in op.name]
        assert sum(op.type == "MatMul" for op in widened) == 1


def test_an_operation_is_replaced_once_by_nested_scopes():
    with fakes.fresh_graph() as graph, float32_ops({"MatMul"}), float32_ops({"MatMul"}):
        x = tf.ones([2, 2], tf.float16)
        tf.linalg.matmul(x, x)
        wide = [
            op
            for op in graph.get_operations()
            if op.type == "MatMul" and op.outputs[0].dtype == tf.float32
        ]
        assert len(wide) == 1


def test_attributes_and_devices_are_kept():
    with fakes.fresh_graph(), tf.device("/cpu:0"), float32_ops(SLOW_ON_CPU | REDUCTIONS):
        x = fakes.inputs(tf.float16)
        y = tf.nn.conv2d(x, tf.ones([3, 3, 4, 2], tf.float16), 2, "VALID", dilations=[1, 1, 1, 1])
        wide = y.op.inputs[0].op
        assert wide.device == "/device:CPU:0"
        assert wide.get_attr("strides") == [1, 2, 2, 1]
        assert wide.get_attr("padding") == b"VALID"
        transposed = tf.linalg.matmul(tf.ones([3, 2], tf.float16), x[0, 0, :3, :], transpose_a=True)
        assert transposed.op.inputs[0].op.get_attr("transpose_a")


def test_control_dependencies_are_kept():
    """The replacement waits for what the original operation would have waited for."""
    with fakes.fresh_graph(), tf.Session() as session, float32_ops({"MatMul"}):
        counter = tf.get_variable("counter", initializer=0)
        x = tf.ones([2, 2], tf.float16)
        with tf.control_dependencies([counter.assign_add(1)]):
            y = tf.linalg.matmul(x, x)
        session.run(tf.global_variables_initializer())
        session.run(y)
        assert session.run(counter) == 1
