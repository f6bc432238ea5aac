"""The soak of cycles: nodes sleep and wake ten thousand times through the whole door, while some BMCs are always ill.

The witness is what reached the BMCs, by their own logs.
"""
