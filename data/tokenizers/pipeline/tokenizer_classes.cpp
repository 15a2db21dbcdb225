#include "data/tokenizers/pipeline/tokenizer_classes.h"

#include <algorithm>

#include "core/base/words.h"

namespace nystrom {
namespace {

using Names = std::array<std::string_view, roles>;
using enum TokenizerClass::Mask;

// bos, eos, unk, sep, pad, cls, mask
constexpr Names none{}, bert_names{"", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
    deberta_names{"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
    albert_names{"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
    fnet_names{"", "", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
    big_bird_names{"<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
    roberta_names{"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    mpnet_names{"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"},
    herbert_names{"", "", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
    xlnet_names{"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"},
    xglm_names{"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", ""},
    t5_names{"", "</s>", "<unk>", "", "<pad>", "", ""},
    reformer_names{"", "</s>", "<unk>", "", "", "", ""},
    gpt2_names{"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "", "", "", ""},
    qwen2_names{"", "<|endoftext|>", "<|endoftext|>", "", "<|endoftext|>", "", ""},
    clip_names{"<|startoftext|>", "<|endoftext|>", "<|endoftext|>", "", "<|endoftext|>", "", ""},
    llama_names{"<s>", "</s>", "<unk>", "", "", "", ""},
    bloom_names{"<s>", "</s>", "<unk>", "", "<pad>", "", ""},
    gemma_names{"<bos>", "<eos>", "<unk>", "", "<pad>", "", ""},
    cohere_names{"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "", "", "", ""};

constexpr unsigned bos = 1u << Role::bos, eos = 1u << Role::eos, unk = 1u << Role::unk,
                   sep = 1u << Role::sep, pad = 1u << Role::pad, cls = 1u << Role::cls,
                   all_but_mask = bos | eos | unk | sep | pad | cls;

constexpr TokenizerClass classes[] = {
    {"PreTrainedTokenizer", Family::plain, true, none, bare,
     "bitnet blt csm falcon glm glm4 glm4_moe glm4v glm4v_moe gpt_oss helium kosmos-2.5 modernbert "
     "moonshine moshi nemotron pixtral smollm3"},
    {"TokenizersBackend", Family::plain, false, none, bare, ""},  // of transformers 5
    {"AlbertTokenizer", Family::plain, true, albert_names, with_space, "albert nystromformer yoso"},
    {"BartTokenizer", Family::roberta, false, roberta_names, with_space_in_normal_text, "bart"},
    {"BarthezTokenizer", Family::plain, false, roberta_names, with_space, "barthez"},
    {"BertTokenizer", Family::bert, true, bert_names, bare,
     "align bark bert blip bros chinese_clip ernie git grounding-dino megatron-bert "
     "mm-grounding-dino nezha qdqbert tvp vilt visual_bert"},
    {"BigBirdTokenizer", Family::plain, false, big_bird_names, with_space, "big_bird", "",
     all_but_mask},
    {"BlenderbotSmallTokenizer", Family::plain, true, gpt2_names, bare, "blenderbot-small"},
    {"BlenderbotTokenizer", Family::roberta, false, roberta_names, with_space, "blenderbot"},
    {"BloomTokenizer", Family::plain, false, bloom_names, bare, "bloom"},
    {"CLIPTokenizer", Family::plain, false, clip_names, bare,
     "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit xclip"},
    {"CamembertTokenizer", Family::plain, false, roberta_names, with_space, "camembert",
     "<s>NOTUSED </s>NOTUSED <unk>NOTUSED"},
    {"CodeGenTokenizer", Family::plain, false, gpt2_names, bare, "codegen phi"},
    {"CohereTokenizer", Family::llama, false, cohere_names, bare, "aya_vision cohere cohere2"},
    {"ConvBertTokenizer", Family::bert, true, bert_names, bare, "convbert"},
    {"DPRContextEncoderTokenizer", Family::bert, true, bert_names, bare, ""},
    {"DPRQuestionEncoderTokenizer", Family::bert, true, bert_names, bare, "dpr"},
    {"DPRReaderTokenizer", Family::bert, false, bert_names, bare, ""},
    {"DebertaTokenizer", Family::plain, true, deberta_names, bare, "deberta"},
    {"DebertaV2Tokenizer", Family::plain, true, deberta_names, bare, "deberta-v2"},
    {"DistilBertTokenizer", Family::bert, false, bert_names, bare, "distilbert"},
    {"ElectraTokenizer", Family::bert, true, bert_names, bare, "electra"},
    {"FNetTokenizer", Family::plain, true, fnet_names, with_space, "fnet", "", sep | cls},
    {"FunnelTokenizer", Family::bert, true, xlnet_names, bare, "funnel"},
    {"GPT2Tokenizer", Family::gpt2, false, gpt2_names, bare,
     "blip-2 dbrx emu3 exaone4 flex_olmo gpt2 gpt_bigcode gpt_neo gptj granite granitemoe "
     "granitemoehybrid granitemoeshared instructblip instructblipvideo minimax olmo3 opt "
     "starcoder2"},
    {"GPTNeoXTokenizer", Family::gpt_neox, false, gpt2_names, bare,
     "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmo2 olmoe rwkv stablelm xlstm"},
    {"GemmaTokenizer", Family::llama, false, gemma_names, bare,
     "gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 siglip2 "
     "t5gemma"},
    {"HerbertTokenizer", Family::plain, true, herbert_names, bare, "herbert"},
    {"LEDTokenizer", Family::roberta, false, roberta_names, with_space_in_normal_text, "led"},
    {"LayoutLMTokenizer", Family::bert, true, bert_names, bare, "layoutlm"},
    {"LlamaTokenizer", Family::llama, false, llama_names, bare,
     "arcee aria chameleon colpali deepseek_v2 deepseek_v3 deepseek_vl deepseek_vl_hybrid "
     "diffllama ernie4_5 ernie4_5_moe idefics idefics2 idefics3 jamba janus jetmoe llama llama4 "
     "llama4_text llava llava_next llava_next_video llava_onevision mistral mixtral mllama "
     "paligemma persimmon phi3 phimoe video_llava vipllava voxtral zamba zamba2"},
    {"LongformerTokenizer", Family::roberta, false, roberta_names, with_space, "longformer"},
    {"LxmertTokenizer", Family::bert, true, bert_names, bare, "lxmert"},
    {"MPNetTokenizer", Family::mpnet, false, mpnet_names, with_space, "mpnet", "", all_but_mask},
    {"MT5Tokenizer", Family::plain, false, t5_names, bare, "mt5"},
    {"MobileBertTokenizer", Family::bert, true, bert_names, bare, "mobilebert"},
    {"MvpTokenizer", Family::roberta, false, roberta_names, with_space, "mvp", "", all_but_mask},
    {"NougatTokenizer", Family::plain, false, bloom_names, bare, ""},
    {"OpenAIGPTTokenizer", Family::plain, false, {"", "", "<unk>"}, bare, "openai-gpt"},
    {"Qwen2Tokenizer", Family::plain, false, qwen2_names, bare,
     "colqwen2 internvl qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 "
     "qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe",
     "", bos | eos | unk | pad},
    {"RealmTokenizer", Family::bert, true, bert_names, bare, "realm"},
    {"ReformerTokenizer", Family::plain, false, reformer_names, bare, "reformer"},
    {"RemBertTokenizer", Family::plain, true, albert_names, with_space, "rembert"},
    {"RetriBertTokenizer", Family::bert, false, bert_names, bare, "retribert"},
    {"RobertaTokenizer", Family::roberta, false, roberta_names, with_space,
     "bridgetower clap data2vec-text ibert mega mra roberta roberta-prelayernorm"},
    {"SplinterTokenizer", Family::mpnet, true, bert_names, bare, "splinter", "[QUESTION]"},
    {"SqueezeBertTokenizer", Family::bert, true, bert_names, bare, "squeezebert"},
    {"T5Tokenizer", Family::plain, false, t5_names, bare,
     "longt5 musicgen musicgen_melody pix2struct switch_transformers t5 umt5"},
    {"WhisperTokenizer", Family::plain, false, gpt2_names, bare, "whisper", "", bos | eos | unk},
    {"XGLMTokenizer", Family::plain, false, xglm_names, bare, "xglm",
     "<madeupword0> <madeupword1> <madeupword2> <madeupword3> <madeupword4> <madeupword5> "
     "<madeupword6>"},
    {"XLMRobertaTokenizer", Family::plain, false, roberta_names, with_space,
     "kosmos-2 metaclip_2 xlm-roberta xlm-roberta-xl xmod"},
    {"XLNetTokenizer", Family::plain, true, xlnet_names, with_space, "xlnet", "<eop> <eod>"}};

constexpr std::string_view python_model_types =
    "bartpho bert-generation bert-japanese bertweet bigbird_pegasus biogpt byt5 canine clvp "
    "code_llama cpm cpmant "
    "ctrl dia ernie_m esm flaubert fsmt gpt-sw3 gpt_neox_japanese gptsan-japanese layoutlmv2 "
    "layoutlmv3 layoutxlm lilt luke m2m_100 marian markuplm mbart mbart50 mluke myt5 nllb nllb-moe "
    "pegasus pegasus_x perceiver phobert plbart prophetnet rag roc_bert roformer seamless_m4t "
    "seamless_m4t_v2 siglip "
    "speech_to_text speech_to_text_2 speecht5 tapas tapex transfo-xl udop vits xlm xlm-prophetnet";

bool lists(std::string_view words, std::string_view word) {
  const auto all = words_between(words, " ");
  return std::ranges::find(all, word) != all.end();
}

}  // namespace

const TokenizerClass* find_tokenizer_class(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const auto found = std::ranges::find(classes, name, &TokenizerClass::name);
  return found == std::end(classes) ? nullptr : found;
}

const TokenizerClass* tokenizer_class_of_model(std::string_view model_type) {
  const auto found = std::ranges::find_if(
      classes, [&](const TokenizerClass& each) { return lists(each.model_types, model_type); });
  return found == std::end(classes) ? nullptr : found;
}

bool needs_python_tokenizer(std::string_view model_type) {
  return lists(python_model_types, model_type);
}

}  // namespace nystrom
