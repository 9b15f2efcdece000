import { describe, expect, it } from '@jest/globals'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import {
  listAnchors,
  documentFiles,
  guideFiles,
  listLinks,
  listSubpaths,
  packageJson,
  readDocument,
  referenceFiles,
  root,
  tableUnder
} from '../support/fixtures/documents.js'

const read = (file: string): string => readFileSync(join(root, file), 'utf8')

describe.each(documentFiles)('%s', (file) => {
  const document = readDocument(file)

  it('links to files and headings that exist', () => {
    const broken = listLinks(document).filter((target) => {
      if (/^https?:/.test(target)) return false
      const [path = '', anchor] = target.split('#')
      const linkedFile = path === '' ? file : normalize(join(dirname(file), path))
      if (!existsSync(join(root, linkedFile))) return true
      return anchor !== undefined && !listAnchors(readDocument(linkedFile)).includes(anchor)
    })
    expect(broken).toEqual([])
  })

  it('names scripts, subpaths and files that exist', () => {
    const scripts = [...document.text.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!)
    // An app that the starter wrote has the script `dev`.
    expect(scripts.filter((name) => name !== 'dev' && !(name in packageJson.scripts))).toEqual([])
    const subpaths = document.text.matchAll(
      /(?<!@rsksmart\/|npm\/|package\/|node_modules\/|skills\/|\.\/)(express-did-auth(?:-client)?)(\/[\w/-]+)/g
    )
    const unknown = [...subpaths].filter(([, name = '', path = '']) => !listSubpaths(name).includes(`.${path}`))
    expect(unknown.map(([subpath]) => subpath)).toEqual([])
    const files = [...document.text.matchAll(/(?<![\w./])(?:examples|src|servers|test)\/[\w./-]+\.(?:\w+)/g)]
      .map(([path]) => path)
      .filter((path) => !path.includes('/dist/'))
    expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })

  it('contains no path of a specific machine', () => {
    expect(document.text).not.toMatch(/(?<![\w.:/])\/(?:home|root|Users|tmp|work|opt|var(?!\/lib\/did-auth)|usr)\//)
  })
})

/** Maximum number of lines per document. */
const MAX_LINES: readonly (readonly [string, number])[] = [
  ['SECURITY.md', 180],
  ['CONTRIBUTING.md', 110],
  ['AGENTS.md', 60],
  ['ARCHITECTURE.md', 120],
  ['test/README.md', 80],
  ...['README.md', ...documentFiles.filter((file) => /^(?:src|servers)\//.test(file))].map(
    (file) => [file, 200] as const
  )
]

describe.each(MAX_LINES)('the length of %s', (file, maxLines) =>
  it(`is at most ${maxLines} lines`, () =>
    expect(read(file).trimEnd().split('\n').length).toBeLessThanOrEqual(maxLines))
)

describe('the index of the reference', () =>
  it('links to every other page of it', () => {
    const linked = listLinks(readDocument('src/README.md')).map((target) =>
      normalize(join('src', target.split('#')[0]!))
    )
    expect(referenceFiles.slice(1).filter((file) => !linked.includes(file))).toEqual([])
  }))

describe('the index of the guides', () =>
  it('links to every other guide', () => {
    const linked = listLinks(readDocument('src/guides/README.md')).map(
      (target) => `src/guides/${target.split('#')[0]!}`
    )
    expect(guideFiles.filter((file) => file !== 'src/guides/README.md' && !linked.includes(file))).toEqual([])
  }))

describe('the table of threats', () => {
  const tests = tableUnder(readDocument('SECURITY.md'), 'Threats, measures, tests').map(([, , named = '']) => named)

  it('names existing tests for every threat', () => {
    const files = tests.flatMap((named) => [...named.matchAll(/`([^`]+)`/g)].map(([, file]) => `test/${file!}`))
    const exists = (file: string): boolean =>
      existsSync(join(root, `${file}.test.ts`)) || existsSync(join(root, `${file}.slow.test.ts`))
    expect(files.filter((file) => !exists(file))).toEqual([])
    expect(tests.filter((named) => !named.includes('`'))).toEqual([])
  })
})

describe('the table of rules and their tests', () =>
  it('mentions every folder of tests', () => {
    const folders = readdirSync(join(root, 'test'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
    const page = read('test/README.md')
    expect(folders.map(({ name }) => name).filter((name) => !page.includes(`${name}/`))).toEqual([])
  }))

describe('README.md', () => {
  it('has its chapters in the order of the design', () => {
    const headings = [...readDocument('README.md').prose.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
    expect(headings).toEqual([
      'Install',
      'Quick start',
      'How a login works',
      'The client',
      'What you get',
      'The servers',
      'Work on this repository',
      'How it compares',
      'Figures',
      'More'
    ])
  })

  it('shows the whole quick start before anything else, in 12 lines of code', () => {
    const lines = read('README.md').split('\n')
    const end = lines.findIndex((line) => line.startsWith('app.listen(3000)'))
    expect(end).toBeGreaterThan(0)
    expect(end).toBeLessThan(20)
    const [first] = readDocument('README.md').blocks
    expect(first!.code.split('\n').filter((line) => line !== '')).toHaveLength(12)
  })

  it('names the two commands for a checkout, of which .ci/run runs the tests', () => {
    const commands = readDocument('README.md').blocks.map(({ code }) => code)
    expect(commands).toContain('npm start\nnpm test\n')
    const run = read('.ci/run')
    expect(run).toMatch(/^node \.config\/install\.js slow$/m)
    // `run test` means `npm run test`, which is `npm test`.
    expect(run).toMatch(/^(?:npm|run) test$/m)
  })
})
