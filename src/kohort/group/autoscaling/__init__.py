"""How many members a group needs: samples of its offsets in, a number and its cause out. No sockets, no clock."""
