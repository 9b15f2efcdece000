/**
 * `npm start` and similar scripts: installs missing packages, builds, and runs the servers in this process, so that
 * signals reach them. Development packages are installed only for the IPFS client.
 */
import { build } from './build.js'
import { usesIpfs } from './uses-ipfs.js'

if (await build({ withIpfs: usesIpfs() })) await import('../servers/dist/bin.js')
else process.exitCode = 1
