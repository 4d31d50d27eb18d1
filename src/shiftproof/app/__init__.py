"""The interactive page: drag a picture and watch how layers and networks respond."""
