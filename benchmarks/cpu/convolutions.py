"""Convolutions of every kind, batch norm, and the augmentation of images. Jax has channels last, PyTorch first."""

from cpu.frameworks import descended, functional, jax, jnp, lax, torch, trained
from cpu.programs import normal, program

IMAGES = ("NHWC", "HWIO", "NHWC")


def jax_gradient(convolve, x, w):
    """The gradient of a convolution by both arguments."""
    return jax.grad(lambda x, w: jnp.sum(convolve(x, w) ** 2), (0, 1))(x, w)


def torch_gradient(convolve, x, w):
    x, w = x.contiguous().requires_grad_(), w.contiguous().requires_grad_()
    return lambda: torch.autograd.grad((convolve(x, w) ** 2).sum(), (x, w))


def channels_first(x):
    return x.permute(0, 3, 1, 2).contiguous()


def kernel_first(w):
    return w.permute(3, 2, 0, 1).contiguous()


def conv2d(x, w, stride=1, groups=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=IMAGES, feature_group_count=groups
    )


@program(
    "conv net, train step",
    flop=2 * 32 * 9 * (2 * 32 * 32 * 3 * 32 + 3 * (16 * 16 * 32 * 64 + 8 * 8 * 64 * 64)),
)
class ConvNet:
    """Three convolutions of 3x3 on 32 images of 32x32, each but the first with a stride of 2."""

    def inputs(rng):
        sizes = (3, 32, 64, 64)
        kernels = [normal(rng, 3, 3, n, m, scale=(9 * n) ** -0.5) for n, m in zip(sizes, sizes[1:])]
        head = normal(rng, 8 * 8 * 64, 10, scale=1 / 64)
        return [*kernels, head], normal(rng, 32, 32, 32, 3), rng.integers(0, 10, 32)

    def jax(parameters, x, labels):
        def loss(parameters, x, labels):
            *kernels, head = parameters
            for i, w in enumerate(kernels):
                x = jax.nn.relu(conv2d(x, w, stride=1 if i == 0 else 2))
            likely = jax.nn.log_softmax(x.reshape(len(x), -1) @ head)
            return -jnp.take_along_axis(likely, labels[:, None], axis=1).mean()

        return descended(loss)(parameters, x, labels)

    def torch(parameters, x, labels):
        def loss(parameters, x, labels):
            *kernels, head = parameters
            for i, w in enumerate(kernels):
                x = torch.relu(functional.conv2d(x, w, stride=1 if i == 0 else 2, padding=1))
            return functional.cross_entropy(x.flatten(1) @ head, labels)

        *kernels, head = parameters
        parameters = [*map(kernel_first, kernels), head]
        return trained(loss, parameters, channels_first(x), labels)


@program("conv 1d, gradient", flop=6 * 16 * 1024 * 9 * 32 * 64)
class Conv1d:
    def inputs(rng):
        return normal(rng, 16, 1024, 32), normal(rng, 9, 32, 64, scale=0.06)

    def jax(x, w):
        convolve = lambda x, w: lax.conv_general_dilated(
            x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        )
        return jax_gradient(convolve, x, w)

    def torch(x, w):
        convolve = lambda x, w: functional.conv1d(x, w, padding=4)
        return torch_gradient(convolve, x.permute(0, 2, 1), w.permute(2, 1, 0))


@program("depthwise conv, gradient", flop=6 * 8 * 56 * 56 * 9 * 96)
class Depthwise:
    def inputs(rng):
        return normal(rng, 8, 56, 56, 96), normal(rng, 3, 3, 1, 96, scale=0.3)

    def jax(x, w):
        return jax_gradient(lambda x, w: conv2d(x, w, groups=96), x, w)

    def torch(x, w):
        convolve = lambda x, w: functional.conv2d(x, w, padding=1, groups=96)
        return torch_gradient(convolve, channels_first(x), kernel_first(w))


@program("grouped conv, gradient", flop=6 * 8 * 28 * 28 * 9 * 128 * 16)
class Grouped:
    def inputs(rng):
        return normal(rng, 8, 28, 28, 128), normal(rng, 3, 3, 16, 128, scale=0.1)

    def jax(x, w):
        return jax_gradient(lambda x, w: conv2d(x, w, groups=8), x, w)

    def torch(x, w):
        convolve = lambda x, w: functional.conv2d(x, w, padding=1, groups=8)
        return torch_gradient(convolve, channels_first(x), kernel_first(w))


@program("transposed conv, gradient", flop=6 * 8 * 16 * 16 * 16 * 64 * 32)
class Transposed:
    """Doubles the size of images."""

    def inputs(rng):
        return normal(rng, 8, 16, 16, 64), normal(rng, 4, 4, 64, 32, scale=0.03)

    def jax(x, w):
        convolve = lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=IMAGES)
        return jax_gradient(convolve, x, w)

    def torch(x, w):
        convolve = lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1)
        return torch_gradient(convolve, channels_first(x), w.permute(2, 3, 0, 1))


@program("conv in a scan, gradient", flop=6 * 16 * 8 * 16 * 16 * 9 * 32 * 32)
class RecurrentConv:
    """16 steps of a state that is convolved."""

    def inputs(rng):
        return normal(rng, 8, 16, 16, 32), normal(rng, 3, 3, 32, 32, scale=0.06)

    def jax(x, w):
        def loss(x, w):
            step = lambda state, _: (jnp.tanh(conv2d(state, w) + x), None)
            state, _ = lax.scan(step, x, None, length=16)
            return jnp.sum(state**2)

        return jax.grad(loss, (0, 1))(x, w)

    def torch(x, w):
        def convolve(x, w):
            state = x
            for _ in range(16):
                state = torch.tanh(functional.conv2d(state, w, padding=1) + x)
            return state

        return torch_gradient(convolve, channels_first(x), kernel_first(w))


@program("batch norm, gradient", byte=4 * 64 * 32 * 32 * 64 * 6)
class BatchNorm:
    def inputs(rng):
        x = normal(rng, 64, 32, 32, 64)
        return x, normal(rng, 64), normal(rng, 64), x[::-1].copy()

    def jax(x, scale, bias, cotangent):
        def loss(x, scale, bias):
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            y = (x - mean) * lax.rsqrt(var + 1e-5) * scale + bias
            return jnp.sum(y * cotangent)

        return jax.grad(loss, (0, 1, 2))(x, scale, bias)

    def torch(x, scale, bias, cotangent):
        x, cotangent = channels_first(x).requires_grad_(), channels_first(cotangent)
        scale, bias = scale.requires_grad_(), bias.requires_grad_()

        def call():
            y = functional.batch_norm(x, None, None, scale, bias, training=True)
            return torch.autograd.grad(y, (x, scale, bias), cotangent)

        return call


@program("image augmentation", byte=4 * 64 * 64 * 64 * 3 * 2)
class Augmentation:
    """Flips, shifts, resizes and brightens 64 images of 64x64, each by its own numbers."""

    def inputs(rng):
        return (
            rng.random((64, 64, 64, 3), dtype="float32"),
            rng.integers(0, 2, 64).astype(bool),
            rng.integers(0, 9, (64, 2)),
            rng.random(64, dtype="float32") + 0.5,
        )

    def jax(images, flips, shifts, brightness):
        def augment(image, flip, shift, brightness):
            image = jnp.where(flip, image[:, ::-1], image)
            image = lax.dynamic_slice(image, (shift[0], shift[1], 0), (56, 56, 3))
            image = jax.image.resize(image, (64, 64, 3), "bilinear")
            return jnp.clip(image * brightness, 0, 1)

        return jax.vmap(augment)(images, flips, shifts, brightness)

    def torch(images, flips, shifts, brightness):
        images = channels_first(images)
        shifts = shifts.tolist()

        def call():
            flipped = torch.where(flips[:, None, None, None], images.flip(3), images)
            cropped = torch.stack(
                [x[:, i : i + 56, j : j + 56] for x, (i, j) in zip(flipped, shifts, strict=True)]
            )
            resized = functional.interpolate(cropped, (64, 64), mode="bilinear")
            return torch.clip(resized * brightness[:, None, None, None], 0, 1)

        return call
