"""Parts of allocation: what is withheld from a demand, and how it is solved beside that."""
