"""The small Llama over a cache of pages: 16 sequences share 160 pages of 16 positions.

aotpack examples/llm/llama_paged.py -o dist --target cpu
"""

from llama import model
from paged import methods as over_pages

name = "tiny_llama_paged"
methods = over_pages(model, pages=160, page=16, length=320, rows=16, chunk=16)
