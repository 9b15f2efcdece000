import { mkdirSync, readdirSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { packAll, root, runIn } from './packed-package.js'

/** Folder with packages, as after an installation. */
export interface LinkedProject {
  path: string
  remove: () => void
}

/**
 * Creates a folder whose `node_modules` contains the packed packages of this repository, and links to all packages that
 * it has installed. No package is downloaded.
 */
export async function createLinkedProject(): Promise<LinkedProject> {
  const { path, remove } = temporaryFolder()
  const modules = join(realpathSync(path), 'node_modules')
  const { library, client, servers } = await packAll()
  const packed = { 'express-did-auth': library, 'express-did-auth-client': client, 'express-did-auth-servers': servers }
  for (const [name, { tarball }] of Object.entries(packed)) {
    mkdirSync(join(modules, name), { recursive: true })
    await runIn(modules, 'tar', 'xzf', tarball, '--strip-components=1', '-C', name)
  }
  for (const from of [join(root, 'node_modules'), join(root, 'test/slow/node_modules')]) linkPackages(from, modules)
  return { path: realpathSync(path), remove }
}

/** Links packages that are not linked yet. A folder of a scope is created, and its packages are linked. */
function linkPackages(from: string, to: string): void {
  const linked = new Set(readdirSync(to))
  for (const name of readdirSync(from)) {
    if (name.startsWith('@')) {
      mkdirSync(join(to, name), { recursive: true })
      linkPackages(join(from, name), join(to, name))
    } else if (/^[a-z]/.test(name) && !name.startsWith('express-did-auth') && !linked.has(name)) {
      symlinkSync(realpathSync(join(from, name)), join(to, name))
    }
  }
}
