"""sparsenet: classifiers with up to millions of labels, trained on ordinary CPUs."""
