// Adds the cards in the order of the page.

addRuns();
addLearning();
addSplit();
addTimes();
addBytes();
addRanks();
addTimeline();
addConfig();
showPage();
