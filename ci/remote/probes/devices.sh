#!/bin/bash
# Whether the devices that this test may use are those named.
found=$(env | grep -E '^(CUDA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|TPU_VISIBLE_CHIPS)=' | sort)
echo "devices: ${found:-none}"
[[ ${found:-none} == "$1" ]]
