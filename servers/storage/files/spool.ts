import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { codeOf } from '../../config/startup-error.js'

const DAY_MILLISECONDS = 86_400_000

/** Of this start of this process: its number may be that of one before, and several machines may share a folder. */
const OWN = `${hostname()}~${process.pid}~${randomBytes(4).toString('hex')}`

/** Files of bodies that are arriving, in their own folder. Users delete them; what a crash left, the next start. */
export class Spool {
  readonly #folder: string

  /** Creates the folder if it is missing, and deletes what ended processes left there. */
  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    for (const name of readdirSync(folder)) {
      const path = join(folder, name)
      if (isLeft(path, name)) rmSync(path, { force: true })
    }
  }

  /** The path of a new file. Open it with mode 0600. */
  newFile(): string {
    return join(this.#folder, `${OWN}~${randomBytes(8).toString('hex')}`)
  }
}

function isLeft(path: string, name: string): boolean {
  const [host = '', pid = '', start = ''] = name.split('~')
  if (`${host}~${pid}~${start}` === OWN) return false
  // A container that was made again has another name.
  if (host !== hostname()) {
    const { mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? { mtimeMs: 0 }
    return Date.now() - mtimeMs > DAY_MILLISECONDS
  }
  if (Number(pid) === process.pid) return true
  try {
    process.kill(Number(pid), 0)
    return false
  } catch (error) {
    return codeOf(error) === 'ESRCH'
  }
}
