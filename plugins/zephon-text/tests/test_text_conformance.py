"""The conformance kit, on tokenizers that the library itself trained, and on those of the capability ``train``."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from zephon_testkit import TokenizerTests


class TestHf(TokenizerTests):
    plugin = "hf"

    def tokenizer(self, folder, texts):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        special = ["<s>", "</s>", "<pad>"]
        trainer = trainers.BpeTrainer(
            vocab_size=320, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
        )
        tokenizer.save(str(folder / "tokenizer.json"))
        return str(folder)


class TestHfByItsOwnTraining(TokenizerTests):
    plugin = "hf"
