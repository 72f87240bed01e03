from zephon._pipeline import Pipeline as Pipeline
from zephon.batch import Batch as Batch

__version__: str
__all__ = ["Batch", "Pipeline", "__version__"]
