/** `npm start` and its like: builds what is not built, then runs the bin in this process, so that signals reach it. */
await import('./build.js')
if (!process.exitCode) await import('../servers/dist/bin.js')
