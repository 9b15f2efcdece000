/**
 * `npm start` and its like: installs and builds what is missing, then runs the bin in this process, so that signals
 * reach it. What is built runs without the packages for development.
 */
import { build, isBuilt } from './build.js'
import { install } from './install.js'

if ((await install('.', { withTools: !isBuilt() })) && (await build())) await import('../servers/dist/bin.js')
else process.exitCode = 1
