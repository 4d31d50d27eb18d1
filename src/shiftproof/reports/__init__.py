"""Tables, figures, findings and pages, drawn from records and arrays: nothing here runs a network."""
