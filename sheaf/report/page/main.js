// The page in its order.

addRuns();
addLearning();
addSplit();
addTimes();
addBytes();
addRanks();
addTimeline();
addConfig();
showPage();
