// Run folders like those of `sheaf train`, with synthetic numbers that are the
// same in each call. `node sample_runs.mjs FOLDER` writes them for inspection.
import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const LAYERS = [
  ['fc1.weight', 784, 2048], ['fc2.weight', 2048, 1024],
  ['fc3.weight', 1024, 512], ['fc4.weight', 512, 256], ['fc5.weight', 256, 10],
];
const STEPS_PER_EPOCH = 150;

// Pseudo-random numbers from 0 to 1.
function makeRandom(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

function routeOf(strategy, [, rows, columns]) {
  if (strategy === 'data') return ['gradient', 'the strategy is data'];
  if (columns === 10)
    return ['gradient', 'the gradient is smaller than its factors'];
  return strategy === 'dad' ? ['dad', '64 rows are fewer than 1134'] :
                              ['rank-dad', 'rank 8 or less by tolerance 0.05'];
}

function bytesOf(route, [, inputs, outputs], rank) {
  if (route === 'gradient') return 4 * inputs * outputs;
  return 4 * (route === 'dad' ? 32 : rank) * (inputs + outputs);
}

function layerRow(strategy, step) {
  const layers = LAYERS.map((layer, i) => {
    const [route] = routeOf(strategy, layer);
    const rank = Math.max(2, Math.round(7 - i * 0.6 - step / 120));
    const use = {name: layer[0], route, bytes: bytesOf(route, layer, rank),
                 exchange_ms: 0.4 + 0.1 * i, gradient_ms: 0.2};
    if (route === 'rank-dad') use.rank = rank;
    return use;
  });
  return {kind: 'layers', epoch: Math.floor(step / STEPS_PER_EPOCH),
          batch: step % STEPS_PER_EPOCH, step, layers};
}

function batchRow(strategy, step, random) {
  const wobble = () => 0.9 + 0.2 * random();
  const exchange = {data: 9, dad: 1.8, 'rank-dad': 1.1}[strategy] * wobble();
  const times = {data_duration: 0.2 * wobble(),
                 forward_duration: 2.1 * wobble(),
                 backward_duration: 3.2 * wobble(), exchange_duration: exchange,
                 exchange_busy: exchange * 1.4,
                 optimizer_duration: 0.7 * wobble()};
  if (strategy !== 'data') times.dad_backward_duration = exchange + 0.5;
  const batch = 0.1 + times.data_duration + times.forward_duration +
      times.backward_duration + exchange + times.optimizer_duration;
  const loss = 0.15 + 2.2 * Math.exp(-step / 90) * (0.8 + 0.4 * random());
  return {kind: 'batch', epoch: Math.floor(step / STEPS_PER_EPOCH),
          batch: step % STEPS_PER_EPOCH, step, rows: 64, loss,
          accuracy: Math.min(1, 1 - loss / 2.6), learning_rate: 0.05,
          ...times, batch_duration: step === 0 ? 5 * batch : batch,
          bytes_sent: LAYERS.reduce((sum, layer) =>
              sum + bytesOf(routeOf(strategy, layer)[0], layer, 6), 0)};
}

function epochRow(epoch) {
  const loss = 0.2 + 1.1 * Math.exp(-epoch * 1.2);
  const row = {kind: 'epoch', epoch, step: (epoch + 1) * STEPS_PER_EPOCH - 1};
  for (const [part, more] of [['train', 0], ['validation', 0.03]]) {
    row[part + '_loss'] = loss + more;
    for (const [name, less] of [['accuracy', 0], ['precision', 0.004],
                                ['recall', 0.006], ['f1', 0.005]])
      row[`${part}_${name}`] = 0.96 - 0.3 * Math.exp(-epoch) - more - less;
  }
  return {...row, is_best: true, learning_rate: 0.05, epoch_duration: 1700};
}

function traceOf() {
  const events = [];
  const add = (name, cat, tid, ts, dur, args) =>
    events.push({name, cat, ph: 'X', pid: 0, tid, ts, dur,
                 ...(args && {args})});
  for (let step = 0; step < 12; ++step) {
    const begin = 3.6e9 + step * 8000 + (step === 0 ? 0 : 9000);
    add('forward', 'train', 0, begin + 200, 2100);
    add('backward', 'train', 0, begin + 2400, 4800);
    LAYERS.forEach(([name], i) => add(`all_gather ${name}`, 'comm', 1,
        begin + 2700 + 900 * i, 700, {bytes: 4096 * (i + 1)}));
    add('optimizer', 'train', 0, begin + 7300, 600);
  }
  return {displayTimeUnit: 'ms', baseTimeNanoseconds: 1.7e18,
          otherData: {schema: 'sheaf.trace.1', rank: 0}, traceEvents: [
            {name: 'thread_name', ph: 'M', pid: 0, tid: 0,
             args: {name: 'train'}},
            {name: 'thread_name', ph: 'M', pid: 0, tid: 1,
             args: {name: 'groups'}}, ...events]};
}

function configOf(strategy, epochs) {
  return `network:\n  name: mlp\n  arguments: {hidden: [2048, 1024]}\n` +
      `optimizer:\n  name: sgd\n  learning_rate: 0.05\nepochs: ${epochs}\n` +
      `global_batch: 64\nparallel:\n  strategy: ${strategy}\n`;
}

function writeRun(folder, {strategy, epochs, isPlain}) {
  mkdirSync(folder, {recursive: true});
  const random = makeRandom(7);
  const rows = [];
  for (let epoch = 0; epoch < epochs; ++epoch) {
    for (let i = 0; i < STEPS_PER_EPOCH; ++i) {
      const step = epoch * STEPS_PER_EPOCH + i;
      rows.push(batchRow(strategy, step, random));
      if (!isPlain && step % 10 === 0) rows.push(layerRow(strategy, step));
    }
    rows.push(epochRow(epoch));
  }
  const put = (name, text) => writeFileSync(join(folder, name), text);
  put('log.jsonl', rows.map((row) => JSON.stringify(row) + '\n').join(''));
  put('config.yaml', configOf(strategy, epochs));
  put('summary.json', JSON.stringify({
    ending: 'finished', ranks: 2, epochs, steps: epochs * STEPS_PER_EPOCH,
    seconds: 3.1 * epochs, test_loss: 0.25, test_accuracy: 0.93}));
  if (isPlain) return;
  put('routes.json', JSON.stringify({layers: LAYERS.map((layer) => {
    const [route, reason] = routeOf(strategy, layer);
    return {name: layer[0], route, reason, rows: 64, in: layer[1],
            out: layer[2]};
  })}));
  put('trace.json', JSON.stringify(traceOf()));
}

// Three runs with all optional files, and one with only the required ones.
export function makeRuns(folder) {
  const kinds = {
    mlp_DDP: {strategy: 'data', epochs: 4},
    mlp_DAD: {strategy: 'dad', epochs: 4},
    mlp_RANK: {strategy: 'rank-dad', epochs: 3},
    mlp_PLAIN: {strategy: 'data', epochs: 2, isPlain: true},
  };
  for (const [name, kind] of Object.entries(kinds))
    writeRun(join(folder, name), kind);
  return Object.keys(kinds).map((name) => join(folder, name));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href)
  console.log(makeRuns(process.argv[2]).join('\n'));
