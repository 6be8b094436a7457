"""How each model learns and answers, without scikit-learn: rows and frozen options in, arrays out."""
