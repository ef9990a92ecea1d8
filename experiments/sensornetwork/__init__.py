"""The evaluation of the sensor-network paper."""
