// Compares networks with Python implementations: Python writes its weights,
// input and output, and our network must compute the same output.
#include "tests/support/python.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/nn/network.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf::nn {
namespace {

// In f64, where a different summation order changes only the last digits.
void expect_pythons(const TemporaryFolder& folder, const NetworkSpec& spec,
                    const std::string& name) {
  const auto network = make_network(spec);
  network->to(torch::kDouble);
  tensor::load_state_dict(
      *network, tensor::load_state_dict_file(folder.path() / (name + ".pt")));
  network->eval();
  const auto input = tensor::load_npy(folder.path() / (name + "_input.npy"));
  const auto wanted = tensor::load_npy(folder.path() / (name + "_output.npy"));
  const auto output = network->forward(input);
  ASSERT_EQ(output.sizes(), wanted.sizes()) << name;
  EXPECT_LT((output - wanted).abs().max().item<double>(), 1e-12) << name;
}

const std::string kCommon = R"(
import numpy as np, torch
import torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
def record(name, model, x):
    model = model.double().eval()
    torch.save(model.state_dict(), name + '.pt')
    np.save(name + '_input.npy', x.numpy())
    np.save(name + '_output.npy', model(x).detach().numpy())
)";

TEST(Python, LeNetAndMlpAnswerTheSame) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  run_python(python, folder.path(), kCommon + R"(
class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(F.pad(x, [2] * 4))), 2)
        x = torch.flatten(F.max_pool2d(F.relu(self.conv2(x)), 2), 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))
record('lenet', LeNet(), torch.randn(3, 1, 28, 28).double())
record('mlp', nn.Sequential(nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, 5),
                            nn.Tanh(), nn.Linear(5, 3)),
       torch.randn(4, 12).double())
)");
  expect_pythons(folder, {"lenet", {}, {}}, "lenet");
  expect_pythons(folder,
                 {"mlp", {{"sizes", "12-7-5-3"}, {"activation", "tanh"}}, {}},
                 "mlp");
}

TEST(Python, ResNetsAnswerTheSame) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  run_python(python, folder.path(), kCommon + R"(
class Block(nn.Module):
    def __init__(self, cin, width, cout, stride, convs):
        super().__init__()
        self.n = len(convs)
        channels = [cin] + [width] * (self.n - 1) + [cout]
        for i, (k, s) in enumerate(convs):
            setattr(self, 'conv%d' % (i + 1), nn.Conv2d(
                channels[i], channels[i + 1], k, stride if s else 1,
                padding=k // 2, bias=False))
            setattr(self, 'bn%d' % (i + 1), nn.BatchNorm2d(channels[i + 1]))
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False),
                nn.BatchNorm2d(cout))
    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, 'bn%d' % i)(getattr(self, 'conv%d' % i)(y))
            if i < self.n: y = F.relu(y)
        return F.relu(y + (self.downsample(x) if self.downsample else x))
class ResNet(nn.Module):
    def __init__(self, blocks, width, bottleneck, cifar):
        super().__init__()
        self.cifar = cifar
        self.conv1 = (nn.Conv2d(3, width, 3, 1, 1, bias=False) if cifar else
                      nn.Conv2d(3, width, 7, 2, 3, bias=False))
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        convs = [(1, 0), (3, 1), (1, 0)] if bottleneck else [(3, 1), (3, 0)]
        for stage, count in enumerate(blocks):
            w = width << stage
            out = 4 * w if bottleneck else w
            layers = []
            for i in range(count):
                layers.append(Block(channels, w, out,
                                    2 if stage and not i else 1, convs))
                channels = out
            setattr(self, 'layer%d' % (stage + 1), nn.Sequential(*layers))
        self.stages = len(blocks)
        self.fc = nn.Linear(channels, 5)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                nn.init.uniform_(m.weight, .5, 1.5)
                nn.init.normal_(m.bias); nn.init.normal_(m.running_mean)
                nn.init.uniform_(m.running_var, .5, 1.5)
    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.cifar: x = F.max_pool2d(x, 3, 2, 1)
        for i in range(self.stages): x = getattr(self, 'layer%d' % (i + 1))(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
record('resnet20', ResNet([3, 3, 3], 4, False, True),
       torch.randn(2, 3, 16, 16).double())
record('resnet50', ResNet([3, 4, 6, 3], 4, True, False),
       torch.randn(2, 3, 64, 64).double())
)");
  for (const std::string name : {"resnet20", "resnet50"})
    expect_pythons(folder, {name, {{"width", "4"}, {"classes", "5"}}, {}},
                   name);
}

TEST(Python, VggAnswersTheSame) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  run_python(python, folder.path(), kCommon + R"(
class Vgg(nn.Module):
    def __init__(self):
        super().__init__()
        layers, cin = [], 3
        for v in [2, 2, 'M', 4, 4, 'M', 8, 8, 8, 'M', 16, 16, 16, 'M',
                  16, 16, 16, 'M']:
            if v == 'M': layers.append(nn.MaxPool2d(2, 2)); continue
            layers += [nn.Conv2d(cin, v, 3, padding=1), nn.ReLU()]
            cin = v
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(16 * 49, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 8),
            nn.ReLU(), nn.Dropout(), nn.Linear(8, 4))
    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)).flatten(1))
record('vgg16', Vgg(), torch.randn(2, 3, 64, 64).double())
)");
  expect_pythons(
      folder,
      {"vgg16", {{"width", "2"}, {"hidden", "8"}, {"classes", "4"}}, {}},
      "vgg16");
}

// The reference uses Python's TransformerEncoderLayer, with its weights renamed
// to BERT's.
TEST(Python, BertAnswersTheSame) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  run_python(python, folder.path(), kCommon + R"(
H, L = 8, 2
layers = [nn.TransformerEncoderLayer(H, 2, 16, activation='gelu',
          layer_norm_eps=1e-12, batch_first=True).double().eval()
          for _ in range(L)]
tables = [nn.Embedding(n, H).double() for n in (20, 9, 2)]
norm = nn.LayerNorm(H, 1e-12).double()
pooler, classifier = nn.Linear(H, H).double(), nn.Linear(H, 3).double()
state = {}
def put(name, module):
    for k, v in module.state_dict().items(): state[name + '.' + k] = v
for name, table in zip(('word', 'position', 'token_type'), tables):
    put('bert.embeddings.%s_embeddings' % name, table)
put('bert.embeddings.LayerNorm', norm)
for i, layer in enumerate(layers):
    at = 'bert.encoder.layer.%d.' % i
    for m in (layer.norm1, layer.norm2):
        nn.init.normal_(m.weight); nn.init.normal_(m.bias)
    a = layer.self_attn
    nn.init.normal_(a.in_proj_bias)
    for j, part in enumerate(('query', 'key', 'value')):
        rows = slice(j * H, (j + 1) * H)
        state[at + 'attention.self.%s.weight' % part] = a.in_proj_weight[rows]
        state[at + 'attention.self.%s.bias' % part] = a.in_proj_bias[rows]
    put(at + 'attention.output.dense', a.out_proj)
    put(at + 'attention.output.LayerNorm', layer.norm1)
    put(at + 'intermediate.dense', layer.linear1)
    put(at + 'output.dense', layer.linear2)
    put(at + 'output.LayerNorm', layer.norm2)
put('bert.pooler.dense', pooler)
put('classifier', classifier)
torch.save(state, 'bert.pt')
tokens = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0], [1, 2, 3, 4, 0]])
x = norm(tables[0](tokens) + tables[1](torch.arange(5)) + tables[2].weight[0])
for layer in layers: x = layer(x, src_key_padding_mask=tokens == 0)
output = classifier(torch.tanh(pooler(x[:, 0])))
np.save('bert_input.npy', tokens.numpy())
np.save('bert_output.npy', output.detach().numpy())
)");
  expect_pythons(folder,
                 {"bert-base",
                  {{"vocabulary", "20"},
                   {"hidden", "8"},
                   {"layers", "2"},
                   {"heads", "2"},
                   {"intermediate", "16"},
                   {"positions", "9"},
                   {"classes", "3"}},
                  {}},
                 "bert");
}

TEST(Python, ListsOfLayersAreSequentials) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  run_python(python, folder.path(), kCommon + R"(
record('list', nn.Sequential(
    nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.GELU(),
    nn.Conv2d(4, 6, 3, padding=2, dilation=2, groups=2), nn.GroupNorm(3, 6),
    nn.LeakyReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.LayerNorm(24),
    nn.Dropout(), nn.Linear(24, 3, bias=False), nn.Softmax(1)),
    torch.randn(2, 2, 8, 8).double())
)");
  expect_pythons(folder,
                 {"",
                  {{"input", "2x8x8"}},
                  {{"conv2d",
                    {{"out_channels", "4"},
                     {"kernel", "3"},
                     {"stride", "2"},
                     {"padding", "1"}}},
                   {"batchnorm", {}},
                   {"gelu", {}},
                   {"conv2d",
                    {{"out_channels", "6"},
                     {"kernel", "3"},
                     {"padding", "2"},
                     {"dilation", "2"},
                     {"groups", "2"}}},
                   {"groupnorm", {{"groups", "3"}}},
                   {"leaky_relu", {}},
                   {"avgpool", {{"kernel", "2"}}},
                   {"flatten", {}},
                   {"layernorm", {}},
                   {"dropout", {}},
                   {"linear", {{"out_features", "3"}, {"bias", "false"}}},
                   {"softmax", {}}}},
                 "list");
}

}  // namespace
}  // namespace sheaf::nn
