"""Match: rules over DataFrames."""
