"""The environment of IRMaSim: at every decision an agent names the policy by which waiting jobs start."""
