"""One-vs-rest linear models of texts, trained by dual coordinate descent."""
