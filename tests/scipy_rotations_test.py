"""`jax.scipy.spatial.transform`, compared with SciPy."""

import numpy as np
import pytest
import scipy.spatial.transform as scipy_transform

import jax
import jax.numpy as jnp
from jax.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.RandomState(0)
QUATS = RNG.randn(5, 4).astype(np.float32)
VECTORS = RNG.randn(5, 3).astype(np.float32)
OURS, SCIPYS = Rotation.from_quat(QUATS), scipy_transform.Rotation.from_quat(QUATS)
TURNS = ("xyz", "XYZ", "zxz", "ZXZ", "ZYX", "yxz", "XZX")


def close(x, y, tol=1e-5):
    np.testing.assert_allclose(x, y, rtol=tol, atol=tol)


def same(ours, scipys, tol=1e-5):
    """Compares rotations, whose quaternions have two signs."""
    close(ours.as_matrix(), scipys.as_matrix(), tol)


@pytest.mark.parametrize("index", [slice(None), 2])
def test_representations(index):
    scipys = SCIPYS[index]
    out = jax.jit(
        lambda q: (
            Rotation.from_quat(q).as_matrix(), Rotation.from_quat(q).as_rotvec(),
            Rotation.from_quat(q).as_rotvec(degrees=True), Rotation.from_quat(q).as_mrp(),
            Rotation.from_quat(q).as_quat(canonical=True), Rotation.from_quat(q).as_quat(scalar_first=True),
            Rotation.from_quat(q).magnitude(), Rotation.from_quat(q).inv().as_matrix(),
        )
    )(QUATS[index])  # fmt: skip
    want = (
        scipys.as_matrix(), scipys.as_rotvec(), scipys.as_rotvec(degrees=True), scipys.as_mrp(),
        scipys.as_quat(canonical=True), scipys.as_quat(scalar_first=True), scipys.magnitude(),
        scipys.inv().as_matrix(),
    )  # fmt: skip
    for x, y in zip(out, want):
        assert x.dtype == np.float32 and x.shape == y.shape
        close(x, y, 1e-4 if y is want[2] else 1e-5)


def test_back():
    matrices, vectors = SCIPYS.as_matrix(), SCIPYS.as_rotvec()
    diagonals = np.array([np.diag(d) for d in ([1, -1, -1], [-1, 1, -1], [-1, -1, 1], [1, 1, 1])])
    run = jax.jit(
        lambda m, v, d: (
            Rotation.from_matrix(m),
            Rotation.from_rotvec(v),
            Rotation.from_mrp(v),
            Rotation.from_rotvec(v, degrees=True),
            Rotation.from_rotvec(1e-3 * v),
            Rotation.from_matrix(d),
            Rotation.from_matrix(m[1]),
        )
    )
    make = scipy_transform.Rotation
    wants = (
        SCIPYS, SCIPYS, make.from_mrp(vectors), make.from_rotvec(vectors, degrees=True),
        make.from_rotvec(1e-3 * vectors), make.from_matrix(diagonals), SCIPYS[1],
    )  # fmt: skip
    for ours, want in zip(run(matrices, vectors, diagonals), wants):
        same(ours, want)
    with jax.enable_x64(True):
        small = Rotation.from_rotvec(vectors * 0.02)
        close(small.quat, make.from_rotvec(vectors * 0.02).as_quat(), 1e-15)
        close(small.as_rotvec(), vectors * 0.02, 1e-15)


def test_euler_angles():
    def program(angles):
        made = [Rotation.from_euler(seq, angles, degrees=True) for seq in TURNS]
        return made, [r.as_euler(seq) for r, seq in zip(made, TURNS)]

    angles = 100 * VECTORS
    made, back = jax.jit(program)(angles)
    for seq, ours, out in zip(TURNS, made, back):
        want = scipy_transform.Rotation.from_euler(seq, angles, degrees=True)
        same(ours, want, 1e-4)
        close(out, want.as_euler(seq), 2e-3)
    for seq, values in {"z": [[1.0], [2.0]], "ZX": [[1.0, 2.0]], "y": [0.5], "xy": [1, 2]}.items():
        same(
            Rotation.from_euler(seq, jnp.array(values)),
            scipy_transform.Rotation.from_euler(seq, np.array(values)),
        )
    several = Rotation.from_euler("z", jnp.array([1.0, 2.0]))
    assert len(several) == 2 and Rotation.from_euler("z", 1).single


@pytest.mark.parametrize(
    "seq, middle", [("xyz", np.pi / 2), ("XYZ", -np.pi / 2), ("zxz", 0.0), ("ZXZ", np.pi)]
)
def test_gimbal_lock(seq, middle):
    with jax.enable_x64(True):
        ours = Rotation.from_euler(seq, np.array([0.3, middle, 0.2]))
        angles = ours.as_euler(seq)
        assert angles[2] == 0
        close(Rotation.from_euler(seq, angles).as_matrix(), ours.as_matrix(), 1e-12)


def test_products_and_applications():
    one, wants = OURS[0], SCIPYS[0]

    @jax.jit
    def program(r, s, v):
        return (s * r, r * s, r * r, s * s), (
            r.apply(v), r.apply(v, inverse=True), s.apply(v), r.apply(v[0]), s.apply(v[0], True)
        )  # fmt: skip

    products, vectors = program(OURS, one, VECTORS)
    for ours, want in zip(
        products, (wants * SCIPYS, SCIPYS * wants, SCIPYS * SCIPYS, wants * wants)
    ):
        same(ours, want)
    want = (
        SCIPYS.apply(VECTORS), SCIPYS.apply(VECTORS, inverse=True), wants.apply(VECTORS),
        SCIPYS.apply(VECTORS[0]), wants.apply(VECTORS[0], inverse=True),
    )  # fmt: skip
    for x, y in zip(vectors, want):
        close(x, y)


def test_means():
    weights = np.array([1.0, 2.0, 0.5, 3.0, 1.0], np.float32)
    same(OURS.mean(), SCIPYS.mean(), 1e-4)
    same(OURS.mean(weights), SCIPYS.mean(weights), 1e-4)
    same(OURS[0].mean(), SCIPYS[0], 1e-4)


def test_sequences():
    assert len(OURS) == 5 and not OURS.single and OURS[1].single and bool(OURS[1])
    same(OURS[1:3], SCIPYS[1:3])
    same(OURS[np.array([3, 0])], SCIPYS[[3, 0]])
    same(
        Rotation.concatenate([OURS[1], OURS]),
        scipy_transform.Rotation.concatenate([SCIPYS[1], SCIPYS]),
    )
    close(Rotation.identity().quat, [0, 0, 0, 1])
    assert Rotation.identity(2, np.float16).quat.dtype == np.float16
    same(Rotation.identity(3), scipy_transform.Rotation.identity(3))
    assert jax.tree.structure(OURS) == jax.tree.structure(Rotation(QUATS))
    out = jax.vmap(lambda r, v: (r * r).apply(v))(OURS, VECTORS)
    close(out, (SCIPYS * SCIPYS).apply(VECTORS))


def test_random_rotations():
    many = Rotation.random(jax.random.key(0), 2000)
    close((many.quat**2).sum(-1), 1)
    assert abs(many.quat.mean(0)).max() < 0.06 and Rotation.random(jax.random.key(0)).single
    close((many.quat[:, :, None] * many.quat[:, None]).mean(0), np.eye(4) / 4, 0.03)


def test_canonical_quaternions():
    quats = np.array([[0, 0, -1, 0], [0, -1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, -1], [1, -1, 0, 0.0]])
    ours = Rotation.from_quat(quats).as_quat(canonical=True)
    close(ours, scipy_transform.Rotation.from_quat(quats).as_quat(canonical=True))


def test_derivatives_at_no_rotation():
    zero = np.zeros(3, np.float32)
    turn = jax.jit(jax.jacobian(lambda v: Rotation.from_rotvec(v).as_matrix()))(zero)
    levi_civita = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        levi_civita[i, j, k], levi_civita[j, i, k] = -1, 1
    close(turn, levi_civita)
    same_ = jax.jit(jax.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec()))
    close(same_(zero), np.eye(3))
    close(same_(VECTORS[0]), np.eye(3), 1e-4)
    assert np.all(np.isfinite(jax.grad(lambda v: Rotation.from_rotvec(v).magnitude())(zero)))


def test_interpolation():
    times = np.array([0.0, 1.0, 3.0, 3.5, 5.0], np.float32)
    at = np.array([0, 0.5, 1, 2.9, 3.0, 4.9, 5], np.float32)
    ours, scipys = Slerp.init(times, OURS), scipy_transform.Slerp(times, SCIPYS)
    same(jax.jit(lambda s, t: s(t))(ours, at), scipys(at), 1e-4)
    same(ours(2), scipys(2), 1e-4)
    # Outside the turns go on.
    early = Rotation.from_rotvec(-ours.rotvecs[0])
    same(ours(-1.0), OURS[0] * early, 1e-4)
    speed = jax.jacobian(lambda t: ours(t).as_matrix())(0.5)
    assert np.all(np.isfinite(speed))


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: Rotation.from_quat(QUATS[:, :3]), ValueError, r"4 elements, got shape \(5, 3\)"),
        (lambda: Rotation.from_matrix(VECTORS[0]), ValueError, r"must have shape \(..., 3, 3\)"),
        (lambda: Rotation.from_euler("xYz", VECTORS), ValueError, "from 'X', 'Y', 'Z', got 'xYz'"),
        (lambda: Rotation.from_euler("xxz", VECTORS), ValueError, "consecutive axes"),
        (lambda: Rotation.from_euler("xyzx", VECTORS), ValueError, "1 to 3 axes"),
        (lambda: Rotation.from_euler("xy", VECTORS), ValueError, r"must have shape \(..., 2\)"),
        (lambda: OURS.as_euler("xy"), ValueError, "must name three axes"),
        (lambda: OURS.apply(VECTORS[:2]), ValueError, "5 rotations must be equally many"),
        (lambda: OURS.mean(np.ones(3)), ValueError, r"weights must have shape \(5,\)"),
        (lambda: len(OURS[0]), TypeError, "Single rotation"),
        (lambda: OURS[0][0], TypeError, "Single rotation"),
        (lambda: OURS * 2, TypeError, "unsupported operand"),
        (lambda: Rotation.concatenate([]), ValueError, "no rotations"),
        (lambda: Rotation.concatenate([2]), TypeError, "list of rotations, got int"),
        (lambda: Slerp.init([0, 1], 2), TypeError, "must be a Rotation, got int"),
        (lambda: Slerp.init([0, 1], OURS), ValueError, "one element for each of 5 rotations"),
        (lambda: Slerp.init([0], OURS[:1]), ValueError, "at least 2 rotations"),
        (lambda: Slerp.init([0, 2, 1], OURS[:3]), ValueError, "strictly ascending"),
        (lambda: Slerp.init([0, 1], OURS[:2])(QUATS), ValueError, "number or a vector"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
