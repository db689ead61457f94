"""Large neighbourhood search over non-crossing partitions, for strategy DCAS."""
