#!/bin/bash
# A test that takes a while.
sleep 8
