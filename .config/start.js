/**
 * `npm start` and similar scripts: installs missing packages, builds, and runs the servers in this process, so that
 * signals reach them. After a build, development packages are not needed.
 */
import { build, isBuilt } from './build.js'
import { install } from './install.js'

if ((await install('.', { withTools: !isBuilt() })) && (await build())) await import('../servers/dist/bin.js')
else process.exitCode = 1
