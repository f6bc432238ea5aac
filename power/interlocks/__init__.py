"""What the door asks before a node is switched. Each rule is a pure function and what reads its facts."""
