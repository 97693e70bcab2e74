"""What the page gives away: links, pictures, films, recordings and numbers, each made again from what is seen."""
