import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { until } from '../fixtures/until.js'
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

/** Whether a URL answers as expected; by default, with a status of success. */
export const isAnswering = (url: string, isExpected = ({ ok }: Response): boolean => ok): Promise<boolean> =>
  fetch(url).then(isExpected, () => false)

/** Starts a program of Node in a folder, and waits until a URL answers. @returns the function that stops it */
export async function startProgram(
  folder: string,
  args: readonly string[],
  readyUrl: string,
  env: Record<string, string> = {},
  isExpected?: (answer: Response) => boolean
): Promise<() => Promise<void>> {
  const environment = { ...process.env, ...env }
  const child = spawn(process.execPath, args, { cwd: folder, env: environment, stdio: ['ignore', 'ignore', 'pipe'] })
  let complaints = ''
  child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
  const exited = once(child, 'exit')
  await until(() => {
    if (child.exitCode !== null) throw new Error(complaints)
    return isAnswering(readyUrl, isExpected)
  }).catch((error: unknown) => {
    child.kill()
    throw error
  })
  return async () => {
    child.kill()
    await exited
  }
}
