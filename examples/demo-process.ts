import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A child process of the demo, which ends with the demo. */
export class DemoProcess {
  /** Whole output of the process so far. */
  output = ''
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>

  /** @param file - from this folder; it runs as the demo itself does, so that TypeScript needs no build */
  constructor(file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const path = fileURLToPath(new URL(file, import.meta.url))
    this.#child = spawn(process.execPath, [...process.execArgv, path, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit']
    })
    this.#child.stdout?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    this.#ended = once(this.#child, 'exit')
    process.once('exit', () => this.#child.kill())
  }

  /** Waits until the pattern was printed `count` times. Returns the first group of each match. */
  async printed(pattern: RegExp, count: number): Promise<string[]> {
    for (;;) {
      const found = [...this.output.matchAll(pattern)].map(([, text = '']) => text)
      if (found.length >= count) return found
      if (this.#child.exitCode !== null) throw new Error(`a process ended early: ${this.output}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await this.#ended
  }
}
