#!/bin/bash
# A shard of a test, which takes three seconds.
touch "$TEST_SHARD_STATUS_FILE"
sleep 3
echo "shard $TEST_SHARD_INDEX of $TEST_TOTAL_SHARDS"
