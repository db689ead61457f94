#!/bin/sh
# How the instances of this folder were made (README.md says which come out the same today). Run it from the root of the
# checkout.
set -eu
windows="allocopt generate windows --allocator dp --strategy scas"
$windows --prefix paper --seed 11 --skip 60 --min-jobs 3 --count 40 --out instances/paper.jsonl
$windows --prefix repo --seed 12 --skip 60 --min-jobs 3 --count 40 --out instances/repo.jsonl \
    --pods 25 --leaves-per-pod 4 --nodes-per-leaf 10
$windows --prefix burst --seed 13 --skip 30 --min-jobs 6 --max-jobs 8 --period 120 --count 20 --out instances/burst.jsonl
synthetic="allocopt generate synthetic --mean-run 12 --min-nodes 2"
$synthetic --name L1 --seed 21 --idle 1000 --jobs 50 --max-nodes 38 \
    --pods 10 --leaves-per-pod 16 --nodes-per-leaf 25 --out instances/L1.json.gz
$synthetic --name L2 --seed 22 --idle 5000 --jobs 200 --max-nodes 48 \
    --pods 20 --leaves-per-pod 25 --nodes-per-leaf 25 --out instances/L2.json.gz
$synthetic --name L3 --seed 23 --idle 40000 --jobs 1000 --max-nodes 76 \
    --pods 50 --leaves-per-pod 50 --nodes-per-leaf 40 --out instances/L3.json.gz
# Knapsacks of the size of Theta, 4,360 nodes and 50 waiting jobs, three each, joined in one file.
knapsacks=$(mktemp -d)
knapsack="allocopt generate knapsack --count 3"
$knapsack --prefix means --seed 31 --objective capability --unit 8 --out "$knapsacks/1.jsonl"
$knapsack --prefix turnaround --seed 32 --objective capacity --load 0.9 --out "$knapsacks/2.jsonl"
$knapsack --prefix values --seed 33 --objective linear --out "$knapsacks/3.jsonl"
$knapsack --prefix resources --seed 34 --objective capability --resources 3 --jobs 30 --out "$knapsacks/4.jsonl"
$knapsack --prefix slots --seed 35 --objective linear --slots 6 --jobs 30 --load 0.8 --out "$knapsacks/5.jsonl"
cat "$knapsacks"/*.jsonl > instances/knapsacks.jsonl
rm -r "$knapsacks"
# Co-allocations of the ASAX paper's workflows, three each, joined in one file.
coallocations=$(mktemp -d)
coallocation="allocopt generate coallocation --count 3"
$coallocation --prefix host-capacity --seed 41 --hosts 40 --guests 30 --out "$coallocations/1.jsonl"
$coallocation --prefix host-response --seed 42 --hosts 40 --guests 30 --objective response --out "$coallocations/2.jsonl"
$coallocation --prefix host-throughput --seed 43 --hosts 40 --guests 30 --objective throughput \
    --out "$coallocations/3.jsonl"
$coallocation --prefix host-several --seed 44 --hosts 10 --guests 10 --max-guests 3 --out "$coallocations/4.jsonl"
cat "$coallocations"/*.jsonl > instances/coallocations.jsonl
rm -r "$coallocations"
