"""The data sets known by name: where they come from, and what their files must be, byte for byte.

Every checksum here was either computed from the real file or published by the source; the comments
say which. Where there is neither, none is stated: what the user has is pinned at its first import.
`DataFile` checksums are of the content, that is, of the file as it is after gunzipping:
the same pictures are in circulation in differently compressed files (Debian's package of
Fashion-MNIST, for one), and all of them are welcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from evenstream.errors import UnknownName

FileLayout = Literal["bundled", "idx", "cifar10", "cifar100"]
"""Data sets of few files, which are read whole."""

TreeLayout = Literal["tinyimagenet", "imagenet", "inaturalist2017"]
"""Data sets that are folders of images, which are read as they are needed."""


@dataclass(frozen=True)
class DataFile:
    """A file that a data set is read from: its name, its size and SHA-256 when not compressed."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Download:
    """A compressed file at the source, and which data files come out of it.

    Attributes:
        name: File name at the source; `.tar.gz` is an archive, `.gz` a single compressed file.
        size: Bytes to expect, to show progress and to stop a download that does not end.
        checksum: `sha256:…` or `md5:…` of the compressed file, checked before it is opened; None if
            the source publishes none.
        provides: Names of the data files in it; none for an archive that is unpacked as a whole.
        folder: The folder inside the archive that holds them.
        approximate: Whether `size` is rounded, or only known from others who downloaded the file.
    """

    name: str
    size: int
    checksum: str | None
    provides: tuple[str, ...] = ()
    folder: str = ""
    approximate: bool = False

    @property
    def size_limit(self) -> int:
        """More bytes than this are not the file."""
        return self.size + self.size // 10 if self.approximate else self.size


@dataclass(frozen=True)
class DatasetInfo:
    """A registered data set.

    Attributes:
        name: What users call it.
        description: One line for listings.
        licence: What the source says about its use.
        layout: Which reader turns the files into a `Dataset`; `bundled` needs no files.
        source: The page that describes it.
        files: What must be on disk, unless the data set is a folder of images.
        downloads: How to get these files.
        urls: Base addresses of the downloads, tried in turn.
        usual_folders: Where other tools keep the files, relative to a folder of data sets.
        by_hand: What to do for a data set that is not downloaded and unpacked from here.
        label_names: Class names, where the files do not hold them.
        mean: Per-channel mean of images in [0, 1], or None.
        std: Per-channel standard deviation of the same, or None.
    """

    name: str
    description: str
    licence: str
    layout: FileLayout | TreeLayout
    source: str
    files: tuple[DataFile, ...] = ()
    downloads: tuple[Download, ...] = ()
    urls: tuple[str, ...] = ()
    usual_folders: tuple[str, ...] = ()
    by_hand: str = ""
    label_names: tuple[str, ...] = ()
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @property
    def is_tree(self) -> bool:
        """Whether it is a folder of images rather than a few files."""
        return self.layout in get_args(TreeLayout)

    @property
    def size(self) -> int:
        """Bytes the files take on disk; 0 for a folder of images, where it is not known."""
        return sum(file.size for file in self.files)

    @property
    def download_size(self) -> int:
        """Bytes to download."""
        return sum(download.size for download in self.downloads)


_DIGITS = DatasetInfo(
    name="digits",
    description="1,797 handwritten digits, 8x8 grey, 10 classes; comes with scikit-learn",
    licence="CC BY 4.0 (UCI Machine Learning Repository: Alpaydin and Kaynak, 1998)",
    layout="bundled",
    source="https://archive.ics.uci.edu/dataset/80",
)

# Sizes and SHA-256 of the .gz and of its content: computed from the original files.
_MNIST = DatasetInfo(
    name="mnist",
    description="70,000 handwritten digits, 28x28 grey, 10 classes",
    licence="CC BY-SA 3.0, as commonly stated; copyright Yann LeCun and Corinna Cortes",
    layout="idx",
    source="http://yann.lecun.com/exdb/mnist/",
    files=(
        DataFile(
            "train-images-idx3-ubyte",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        DataFile(
            "train-labels-idx1-ubyte",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        DataFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        DataFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
    downloads=(
        Download(
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ("train-images-idx3-ubyte",),
        ),
        Download(
            "train-labels-idx1-ubyte.gz",
            28_881,
            "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ("train-labels-idx1-ubyte",),
        ),
        Download(
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ("t10k-images-idx3-ubyte",),
        ),
        Download(
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ("t10k-labels-idx1-ubyte",),
        ),
    ),
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    usual_folders=("MNIST/raw", "MNIST"),
    label_names=tuple("0123456789"),
)

# Content: computed from the files in Debian's package dataset-fashion-mnist, whose .gz headers
# differ from the original's. Downloads: MD5 published by the source in its README; the package's
# compressed data under the original headers has these very MD5s and sizes.
_FASHION_MNIST = DatasetInfo(
    name="fashion-mnist",
    description="70,000 pieces of clothing, 28x28 grey, 10 classes",
    licence="MIT (Zalando SE, 2017)",
    layout="idx",
    source="https://github.com/zalandoresearch/fashion-mnist",
    files=(
        DataFile(
            "train-images-idx3-ubyte",
            47_040_016,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        DataFile(
            "train-labels-idx1-ubyte",
            60_008,
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        DataFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        DataFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    downloads=(
        Download(
            "train-images-idx3-ubyte.gz",
            26_421_880,
            "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            ("train-images-idx3-ubyte",),
        ),
        Download(
            "train-labels-idx1-ubyte.gz",
            29_515,
            "md5:25c81989df183df01b3e8a0aad5dffbe",
            ("train-labels-idx1-ubyte",),
        ),
        Download(
            "t10k-images-idx3-ubyte.gz",
            4_422_102,
            "md5:bef4ecab320f06d8554ea6380940ec79",
            ("t10k-images-idx3-ubyte",),
        ),
        Download(
            "t10k-labels-idx1-ubyte.gz",
            5_148,
            "md5:bb300cfdad3c16e7a12a480ee83cd310",
            ("t10k-labels-idx1-ubyte",),
        ),
    ),
    urls=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    usual_folders=("FashionMNIST/raw", "FashionMNIST"),
    label_names=(
        "T-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
)

# Content: computed from the files of the binary release. Archive: MD5 published by the source.
_CIFAR10 = DatasetInfo(
    name="cifar10",
    description="60,000 photographs, 32x32 colour, 10 classes",
    licence="none stated; the source asks to cite Krizhevsky (2009)",
    layout="cifar10",
    source="https://www.cs.toronto.edu/~kriz/cifar.html",
    files=(
        DataFile(
            "data_batch_1.bin",
            30_730_000,
            "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        ),
        DataFile(
            "data_batch_2.bin",
            30_730_000,
            "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        ),
        DataFile(
            "data_batch_3.bin",
            30_730_000,
            "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        ),
        DataFile(
            "data_batch_4.bin",
            30_730_000,
            "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        ),
        DataFile(
            "data_batch_5.bin",
            30_730_000,
            "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        ),
        DataFile(
            "test_batch.bin",
            30_730_000,
            "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        ),
        DataFile(
            "batches.meta.txt",
            61,
            "558e74b5e208382e186da55784b4bac2cd52e558448e1b5800990fdb28ed8033",
        ),
    ),
    downloads=(
        Download(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            (
                *(f"data_batch_{number}.bin" for number in range(1, 6)),
                "test_batch.bin",
                "batches.meta.txt",
            ),
            folder="cifar-10-batches-bin",
        ),
    ),
    urls=("https://www.cs.toronto.edu/~kriz/",),
    usual_folders=("cifar-10-batches-bin",),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2615),
)

# Content: computed from the files of the binary release. Archive: MD5 published by the source.
_CIFAR100 = DatasetInfo(
    name="cifar100",
    description="60,000 photographs, 32x32 colour, 100 classes in 20 superclasses",
    licence="none stated; the source asks to cite Krizhevsky (2009)",
    layout="cifar100",
    source="https://www.cs.toronto.edu/~kriz/cifar.html",
    files=(
        DataFile(
            "train.bin",
            153_700_000,
            "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        ),
        DataFile(
            "test.bin",
            30_740_000,
            "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
        ),
        DataFile(
            "fine_label_names.txt",
            725,
            "4a53f81a8af29bb6aa646bfe2c455db1b061edfde82a39c0cfc313ef536c681b",
        ),
        DataFile(
            "coarse_label_names.txt",
            328,
            "14e28b5b70e3d8a29704b0d9f8c5985cca5f3c3d08ea043dcc87a036df37a2b3",
        ),
    ),
    downloads=(
        Download(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "md5:03b5dce01913d631647c71ecec9e9cb8",
            ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"),
            folder="cifar-100-binary",
        ),
    ),
    urls=("https://www.cs.toronto.edu/~kriz/",),
    usual_folders=("cifar-100-binary",),
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
)

# Checksum: none stated, for the source publishes none and the file has not been seen here (public
# repositories quote the MD5 90528d7ca1a48142e341f4ef8d21d0de). Size: as others received it.
_TINYIMAGENET = DatasetInfo(
    name="tinyimagenet",
    description="110,000 photographs, 64x64 colour, 200 classes; tested on the validation images",
    licence="none stated; from ImageNet, whose terms allow non-commercial research and education",
    layout="tinyimagenet",
    source="https://cs231n.stanford.edu/",
    downloads=(
        Download(
            "tiny-imagenet-200.zip",
            248_100_043,
            None,
            folder="tiny-imagenet-200",
            approximate=True,
        ),
    ),
    urls=("https://cs231n.stanford.edu/",),
    usual_folders=("tiny-imagenet-200",),
)

# MD5: quoted in many public repositories as what image-net.org publishes to account holders.
# Sizes: as others received them. Neither file has been seen here.
_IMAGENET = DatasetInfo(
    name="imagenet",
    description="ILSVRC-2012: 1,281,167 photographs to train on, 50,000 to test, 1,000 classes",
    licence="ImageNet terms of access: non-commercial research and education only",
    layout="imagenet",
    source="https://image-net.org/download.php",
    downloads=(
        Download(
            "ILSVRC2012_img_train.tar",
            147_897_477_120,
            "md5:1d675b47d978889d74fa0da5fadfb00e",
            approximate=True,
        ),
        Download(
            "ILSVRC2012_img_val.tar",
            6_744_924_160,
            "md5:29b22e2961454d5413ddabcf34fc5622",
            approximate=True,
        ),
    ),
    usual_folders=("ILSVRC2012", "ILSVRC/Data/CLS-LOC", "ImageNet"),
    by_hand=(
        "ImageNet needs an account, so it is not downloaded from here: get its archives at "
        "https://image-net.org/download.php, unpack them to DIR/train/SYNSET and DIR/val/SYNSET"
    ),
)

# MD5 of the images: published by the source in its README. Annotations: none stated; the source
# publishes none (public repositories quote the MD5 444c835f6459867ad69fcb36478786e7). Sizes: the
# README's 186 GB and 26 MB, taken as powers of 1024. Neither file has been seen here.
_INATURALIST2017 = DatasetInfo(
    name="inaturalist2017",
    description="579,184 photographs of nature to train on, 95,986 to test, 5,089 species",
    licence="iNaturalist terms; non-commercial research and education only, no redistribution",
    layout="inaturalist2017",
    source="https://github.com/visipedia/inat_comp/tree/master/2017",
    downloads=(
        Download("train_val2017.zip", 26 * 1024**2, None, approximate=True),
        Download(
            "train_val_images.tar.gz",
            186 * 1024**3,
            "md5:7c784ea5e424efaec655bd392f87301f",
            approximate=True,
        ),
    ),
    urls=("https://ml-inat-competition-datasets.s3.amazonaws.com/2017/",),
    usual_folders=("inat2017", "iNaturalist2017"),
)

DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for info in (
        _DIGITS,
        _MNIST,
        _FASHION_MNIST,
        _CIFAR10,
        _CIFAR100,
        _TINYIMAGENET,
        _IMAGENET,
        _INATURALIST2017,
    )
}


def dataset_info(name: str) -> DatasetInfo:
    """The registered data set of that name; an unknown name raises `UnknownName`."""
    if name not in DATASETS:
        raise UnknownName("data set", name, DATASETS)
    return DATASETS[name]
