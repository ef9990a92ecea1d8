"""The experiment on semantic matching: section 4.5 of the semantics document, on data made with its traits."""
