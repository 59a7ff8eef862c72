import os


def test_a_test_has_one_of_its_workers_devices():
    assert os.environ["CUDA_VISIBLE_DEVICES"] in ("0", "1")
