"""The card Export: links, pictures, films, recordings and numbers of the shown lab; and files dropped on the page."""

from app.features.export.card import ExportCard

FEATURE = ExportCard
