"""Services of AWS that state machines call, by the models that botocore brings."""
