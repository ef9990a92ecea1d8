"""The experiment on semantic matching: section 8 of the semantics document, on data made as its section 13.8 says."""
